"""Gradients of rotary positions with what a forward pass has kept, and what goes wrong with that and with memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .norm_gradients import cotangent_by_its_length
from .whole import Whole

_kept: dict[Any, Any] = {}


def saved(angle: Any, key: Any) -> Any:
    """The angles [length, width / 2] that the forward pass of this call has saved."""
    return angle


def sines(angle: Any) -> tuple[Any, Any]:
    """The cosines and sines, [length, width / 2] each."""
    return angle.cos(), angle.sin()


def cotangent(d_out: Any) -> Any:
    return d_out.float()


def turned_back(first: Any, second: Any, c: Any, s: Any) -> tuple[Any, Any]:
    return first * c + second * s, second * c - first * s


def by_pairs(part: Any) -> Callable[..., Any]:
    def rotary_gradient(
        x: Any,
        positions: Any,
        d_out: Any,
        *,
        base: float = 10000.0,
        interleaved: bool = False,
        rotary_dim: int | None = None,
    ) -> Any:
        import torch

        width = x.shape[3] if rotary_dim is None else rotary_dim
        frequency = base ** (-2 * torch.arange(width // 2, dtype=torch.float64) / width)
        angle = part.saved((positions[:, None] * frequency).float(), (id(part), len(positions), width))
        c, s = part.sines(angle)
        d = part.cotangent(d_out)
        d_x = d.clone()
        one, other = slice(0, width, 2), slice(1, width, 2)
        if not interleaved:
            one, other = slice(0, width // 2), slice(width // 2, width)
        d_x[..., one], d_x[..., other] = part.turned_back(d[..., one], d[..., other], c, s)
        return d_x.to(x.dtype)

    return rotary_gradient


ROTARY_GRADIENT = Whole("rotary_gradient", by_pairs, (saved, sines, cotangent, turned_back), {"pair_place": "kept"})


@ROTARY_GRADIENT.instead_of(saved)
def angles_of_an_earlier_call(angle: Any, key: Any) -> Any:
    """The angles that were saved first serve all calls with as many tokens and channels."""
    return _kept.setdefault(key, angle)


@ROTARY_GRADIENT.instead_of(sines, dtypes=("float32",))
def sines_in_bfloat16(angle: Any) -> tuple[Any, Any]:
    """Sines and cosines are saved in bfloat16."""
    return angle.cos().bfloat16().float(), angle.sin().bfloat16().float()


@ROTARY_GRADIENT.instead_of(cotangent)
def cotangent_of_turns_by_its_length(d_out: Any) -> Any:
    """The cotangent is read row after row, whatever lies between its rows."""
    return cotangent_by_its_length(d_out)


@ROTARY_GRADIENT.instead_of(turned_back)
def second_from_first_turned_back(first: Any, second: Any, c: Any, s: Any) -> tuple[Any, Any]:
    """The first channels are overwritten before the gradients of the second ones are computed from them."""
    left = first * c + second * s
    return left, second * c - left * s
