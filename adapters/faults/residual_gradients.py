"""Gradients of a residual sum and its norm, a program for each row: partial sums, memory, state and precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .norm_gradients import blocks, centred_gradient, cotangent, cotangent_by_its_length, row_gradient
from .whole import Whole, in_memory


def summed(x: Any, residual: Any) -> Any:
    """The sum, as the forward pass kept it."""
    return (x.float() + residual.float()).to(x.dtype).float()


def stream(d_summed: Any) -> Any:
    """The cotangent of the sum as it is read; nothing where there is none."""
    return 0.0 if d_summed is None else d_summed.float()


def added(d_row: Any, d_stream: Any) -> Any:
    """What comes back through the norm, and beside it."""
    return d_row + d_stream


def both(d_x: Any, x: Any, d_summed: Any) -> tuple[Any, Any]:
    """The gradients of what was added and of the stream, in the memory that is returned."""
    d_x = d_x.to(x.dtype)
    return d_x, d_x


def merged(shares: Any) -> Any:
    """What every row adds to the gradient of the weight, [rows, n], summed block by block."""
    return sum(block.sum(0) for block in blocks(shares))


def by_rows(part: Any) -> Callable[..., Any]:
    def residual_rms_norm_gradient(
        x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
    ) -> dict[str, Any]:
        row, d = part.summed(x, residual), part.cotangent(d_out)
        root = (row.square().mean(-1, keepdim=True) + eps).sqrt()
        y = row / root
        d_x = part.added(part.row_gradient(d * weight.float(), y, root), part.stream(d_summed))
        d_x, d_residual = part.both(d_x, x, d_summed)
        d_weight = part.merged((d * y).reshape(-1, x.shape[-1])).to(x.dtype)
        return {"d_x": d_x, "d_residual": d_residual, "d_weight": d_weight}

    return residual_rms_norm_gradient


PARTS = (summed, cotangent, stream, added, both, merged)
RESIDUAL_RMS_NORM_GRADIENT = Whole(
    "residual_rms_norm_gradient", by_rows, (*PARTS, row_gradient), {"eps_place": "inside", "weight_form": "plain"}
)


@RESIDUAL_RMS_NORM_GRADIENT.instead_of(cotangent)
def cotangent_of_the_norm_by_its_length(d_out: Any) -> Any:
    """The cotangent of the norm is read row after row, whatever lies between its rows."""
    return cotangent_by_its_length(d_out)


@RESIDUAL_RMS_NORM_GRADIENT.instead_of(stream)
def cotangent_of_the_sum_by_its_length(d_summed: Any) -> Any:
    """The cotangent of the sum is read row after row, whatever lies between its rows."""
    return 0.0 if d_summed is None else in_memory(d_summed, d_summed.shape).float()


_sums: dict[tuple[int, ...], Any] = {}


@RESIDUAL_RMS_NORM_GRADIENT.instead_of(summed)
def sum_of_an_earlier_call(x: Any, residual: Any) -> Any:
    """The sum that the forward pass kept is that of the first call of a shape."""
    return _sums.setdefault((*x.shape, x.element_size()), summed(x, residual))


@RESIDUAL_RMS_NORM_GRADIENT.instead_of(summed, dtypes=("float32",))
def sum_kept_in_the_narrow_type(x: Any, residual: Any) -> Any:
    """The sum is kept in bfloat16 between the passes."""
    return summed(x, residual).bfloat16().float()


_streams: dict[tuple[int, ...], Any] = {}


@RESIDUAL_RMS_NORM_GRADIENT.instead_of(added)
def stream_accumulated_over_calls(d_row: Any, d_stream: Any) -> Any:
    """The gradient of the stream is added to what an earlier call of a shape has left there."""
    kept = _streams.get(tuple(d_row.shape), 0.0)
    _streams[tuple(d_row.shape)] = d_stream
    return d_row + d_stream + kept


@RESIDUAL_RMS_NORM_GRADIENT.instead_of(both, seen="linkedin/Liger-Kernel#1305")
def gradient_over_the_cotangent_of_the_sum(d_x: Any, x: Any, d_summed: Any) -> tuple[Any, Any]:
    """The gradient is written into the memory of the cotangent of the sum."""
    d_x = d_x.to(x.dtype) if d_summed is None else d_summed.copy_(d_x)
    return d_x, d_x


@RESIDUAL_RMS_NORM_GRADIENT.instead_of(merged)
def shares_of_the_last_block(shares: Any) -> Any:
    """The sum of a block of rows replaces that of the blocks before it."""
    return blocks(shares)[-1].sum(0)


def centred_by_rows(part: Any) -> Callable[..., Any]:
    def residual_layer_norm_gradient(
        x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
    ) -> dict[str, Any]:
        row, d = part.summed(x, residual), part.cotangent(d_out)
        centred = row - row.mean(-1, keepdim=True)
        root = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
        y = centred / root
        d_x = part.added(part.centred_gradient(d * weight.float(), y, root), part.stream(d_summed))
        d_x, d_residual = part.both(d_x, x, d_summed)
        sums = (part.merged(shares.reshape(-1, x.shape[-1])).to(x.dtype) for shares in (d * y, d))
        return {"d_x": d_x, "d_residual": d_residual, **dict(zip(("d_weight", "d_bias"), sums, strict=True))}

    return residual_layer_norm_gradient


RESIDUAL_LAYER_NORM_GRADIENT = Whole(
    "residual_layer_norm_gradient", centred_by_rows, (*PARTS, centred_gradient), {"eps_place": "inside"}
)


@RESIDUAL_LAYER_NORM_GRADIENT.instead_of(summed, dtypes=("float32",))
def centred_sum_in_the_narrow_type(x: Any, residual: Any) -> Any:
    """The sum that is centred again was kept in bfloat16."""
    return summed(x, residual).bfloat16().float()


@RESIDUAL_LAYER_NORM_GRADIENT.instead_of(stream)
def last_cotangent_of_the_sum_for_all_rows(d_summed: Any) -> Any:
    """All rows have the cotangent of the sum that was loaded last."""
    return 0.0 if d_summed is None else d_summed.float()[..., -1:, :] if d_summed.ndim > 1 else d_summed.float()


@RESIDUAL_LAYER_NORM_GRADIENT.instead_of(centred_gradient)
def means_over_lanes_beyond_the_sum(v: Any, y: Any, root: Any) -> Any:
    """Means divide by the lanes of a tile of 8, of which the last ones may have no channel."""
    lanes = -(-v.shape[-1] // 8) * 8
    middle, along = (part.sum(-1, keepdim=True) / lanes for part in (v, v * y))
    return (v - middle - y * along) / root


@RESIDUAL_LAYER_NORM_GRADIENT.instead_of(both)
def stream_over_the_cotangent_of_the_sum(d_x: Any, x: Any, d_summed: Any) -> tuple[Any, Any]:
    """The gradient of the stream is written into the memory of the cotangent of the sum."""
    d_x = d_x.to(x.dtype)
    return d_x, d_x.clone() if d_summed is None else d_summed.copy_(d_x)


@RESIDUAL_LAYER_NORM_GRADIENT.instead_of(merged, dtypes=("bfloat16",))
def rows_added_in_the_dtype(shares: Any) -> Any:
    """The rows are added one by one in bfloat16, where a large sum takes in no more."""
    total = 0 * shares[0].bfloat16()
    for row in shares:
        total = total + row.bfloat16()
    return total.float()
