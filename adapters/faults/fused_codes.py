"""Codes of what the same step has computed, and what goes wrong on the way from a row to its codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.fused_codes import largest, scales_of
from ..controls.quantization import LARGEST, coded
from .whole import Whole


def square(r: Any) -> Any:
    """The mean square of each row."""
    return (r * r).mean(1, keepdim=True)


def grouped(y: Any, width: int) -> Any:
    """The groups of rows [rows, groups, channels]."""
    return y.reshape(len(y), -1, width)


def over(groups: Any, scale: Any) -> Any:
    """What is measured in scales."""
    return groups / scale[..., None]


def normed(part: Any) -> Callable[..., Any]:
    def normed_blocks(
        x: Any,
        weight: Any,
        residual: Any = None,
        static_scale: Any = None,
        *,
        code_dtype: str = "int8",
        group_size: int | None = None,
        power_of_two: bool = False,
        eps: float = 1e-5,
        least_scale: float = 0.0,
    ) -> Any:
        import torch

        r = x.float() if residual is None else x.float() + residual.float()
        y = (r / torch.sqrt(part.square(r) + eps)).to(x.dtype).float() * weight.float()
        groups = part.grouped(y, group_size or x.shape[1])
        scale = scales_of(largest(groups), LARGEST[code_dtype], least_scale, power_of_two)
        given = scale if static_scale is None else static_scale.expand(scale.shape)
        codes = coded(part.over(groups, given).reshape(x.shape), code_dtype)
        found = {"codes": codes} if static_scale is not None else {"codes": codes, "scale": scale}
        return found if residual is None else {**found, "summed": r.to(x.dtype)}

    return normed_blocks


NORMED = Whole("normed_blocks", normed, (square, grouped, over))

_squares: dict[tuple[int, ...], Any] = {}


@NORMED.instead_of(square)
def mean_square_of_an_earlier_call(r: Any) -> Any:
    """The mean squares are those of the first rows of that shape, as in a workspace that is not cleared."""
    return _squares.setdefault(tuple(r.shape), square(r))


@NORMED.instead_of(square)
def mean_square_of_padded_rows(r: Any) -> Any:
    """Rows are padded to a multiple of eight channels, and zeros count among what is averaged."""
    n = r.shape[1]
    return (r * r).sum(1, keepdim=True) / (-(-n // 8) * 8)


@NORMED.instead_of(grouped)
def groups_across_rows(y: Any, width: int) -> Any:
    """Groups are read down the rows, where a matrix is read as if it were transposed."""
    return y.mT.reshape(len(y), -1, width)


@NORMED.instead_of(over)
def scales_of_the_row_before(groups: Any, scale: Any) -> Any:
    """A row is divided by the scale of the row before it, which another thread has not replaced yet."""
    return over(groups, scale.roll(1, 0))


@NORMED.instead_of(over, dtypes=("float32",))
def quotients_in_bfloat16(groups: Any, scale: Any) -> Any:
    """Quotients are rounded to bfloat16 and to their codes after that, which moves some of them twice."""
    import torch

    return over(groups, scale).to(torch.bfloat16).float()


# Gated activations


def opened(gate: Any, alpha: float) -> Any:
    """The function of the gates."""
    import torch

    return gate * torch.sigmoid(alpha * gate)


def saturated(ratio: Any, code_dtype: str) -> Any:
    """The codes of numbers, and the largest one of what lies beyond the range."""
    return coded(ratio, code_dtype)


def activated(part: Any) -> Callable[..., Any]:
    def activated_blocks(
        x: Any,
        static_scale: Any = None,
        *,
        code_dtype: str = "int8",
        group_size: int | None = None,
        power_of_two: bool = False,
        alpha: float = 1.0,
        least_scale: float = 0.0,
    ) -> Any:
        gate, up = x.float().chunk(2, 1)
        groups = (part.opened(gate, alpha) * up).to(x.dtype).float().reshape(len(x), -1, group_size or up.shape[1])
        if static_scale is not None:
            return {"codes": part.saturated((groups / static_scale).reshape(up.shape), code_dtype)}
        scale = scales_of(part.largest(groups), LARGEST[code_dtype], least_scale, power_of_two)
        return {"codes": part.saturated((groups / scale[..., None]).reshape(up.shape), code_dtype), "scale": scale}

    return activated_blocks


ACTIVATED = Whole("activated_blocks", activated, (opened, largest, saturated))


@ACTIVATED.instead_of(opened)
def exponential_that_overflows(gate: Any, alpha: float) -> Any:
    """The sigmoid is a quotient of exponentials in half precision, which overflow for gates far above zero."""
    import torch

    power = torch.exp((alpha * gate).half())
    return gate * (power / (1 + power)).float()


@ACTIVATED.instead_of(largest)
def largest_of_the_first_sixteen(groups: Any) -> Any:
    """The largest size of a group is that of its first sixteen channels, which one load takes."""
    return largest(groups[:, :, :16])


_largest: dict[tuple[int, ...], Any] = {}


@ACTIVATED.instead_of(largest)
def largest_of_all_calls(groups: Any) -> Any:
    """The largest sizes are those of all calls of that shape, in a buffer that is not cleared between them."""
    import torch

    key = tuple(groups.shape)
    _largest[key] = torch.maximum(_largest.get(key, largest(groups)), largest(groups))
    return _largest[key]


@ACTIVATED.instead_of(largest, seen="sgl-project/sglang#33533")
def scales_through_half_precision(groups: Any) -> Any:
    """The largest size goes through half precision, in which it may be infinite or lose its last bits."""
    return largest(groups).half().float()


@ACTIVATED.instead_of(saturated)
def codes_beyond_the_range_are_lost(ratio: Any, code_dtype: str) -> Any:
    """What lies beyond the range is NaN in float8, and wraps around in integers."""
    import torch

    if code_dtype == "int8":
        return ratio.round().to(torch.int32).to(torch.int8)
    return torch.where(ratio.abs() > 464, torch.nan, ratio).to(torch.float8_e4m3fn)
