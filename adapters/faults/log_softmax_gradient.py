"""The gradient of the logarithm of softmax from logarithms that were kept: tiles, memory, state and precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .norm_gradients import cotangent, cotangent_by_its_length
from .softmax_gradient import TILE, summed, written
from .whole import Whole


def logarithms(x: Any) -> Any:
    """What the forward pass kept."""
    return x.float().log_softmax(-1)


def pieces(d: Any) -> list[Any]:
    """The cotangents, tile by tile."""
    return list(d.split(TILE, -1))


def less(d: Any, log_p: Any, total: Any) -> Any:
    return d - log_p.exp() * total


def by_tiles(part: Any) -> Callable[..., Any]:
    def log_softmax_gradient(x: Any, d_out: Any) -> Any:
        d = part.cotangent(d_out)
        return part.written(part.less(d, part.logarithms(x), part.summed(part.pieces(d))), x, d_out)

    return log_softmax_gradient


LOG_SOFTMAX_GRADIENT = Whole("log_softmax_gradient", by_tiles, (logarithms, cotangent, pieces, summed, less, written))


@LOG_SOFTMAX_GRADIENT.instead_of(cotangent)
def cotangent_of_logarithms_by_its_length(d_out: Any) -> Any:
    """The cotangent is read row after row, whatever lies between its rows."""
    return cotangent_by_its_length(d_out)


_logarithms: dict[tuple[int, ...], Any] = {}


@LOG_SOFTMAX_GRADIENT.instead_of(logarithms)
def logarithms_of_an_earlier_call(x: Any) -> Any:
    """The logarithms that were kept are those of the first call of a shape."""
    return _logarithms.setdefault((*x.shape, x.element_size()), logarithms(x))


@LOG_SOFTMAX_GRADIENT.instead_of(logarithms, dtypes=("float32",))
def logarithms_kept_in_the_narrow_type(x: Any) -> Any:
    """The logarithms are kept in float16 between the passes."""
    return logarithms(x).half().float()


@LOG_SOFTMAX_GRADIENT.instead_of(pieces)
def whole_tiles_of_cotangents(d: Any) -> list[Any]:
    """Only as many cotangents are summed as fill whole tiles, where there is one."""
    n = d.shape[-1]
    return pieces(d[..., : n // TILE * TILE or n])


@LOG_SOFTMAX_GRADIENT.instead_of(summed)
def cotangents_of_the_last_tile(parts: list[Any]) -> Any:
    """The sum of a tile replaces that of the tiles before it."""
    return parts[-1].sum(-1, keepdim=True)


@LOG_SOFTMAX_GRADIENT.instead_of(less)
def cotangents_of_the_last_row(d: Any, log_p: Any, total: Any) -> Any:
    """All rows have the sum of the last one that was reduced."""
    return less(d, log_p, total[..., -1:, :] + 0 * total) if d.ndim > 1 else less(d, log_p, total)


@LOG_SOFTMAX_GRADIENT.instead_of(written)
def gradient_of_logarithms_over_the_cotangent(d_x: Any, x: Any, d_out: Any) -> Any:
    """The gradient is written into the memory of the cotangent."""
    return d_out.copy_(d_x)
