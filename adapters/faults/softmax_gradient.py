"""The gradient of softmax from shares that were kept: what goes wrong with tiles, memory and precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .norm_gradients import cotangent, cotangent_by_its_length
from .whole import Whole

TILE = 16


def shares(x: Any) -> Any:
    """What the forward pass kept."""
    return x.float().softmax(-1)


def tiles(products: Any) -> list[Any]:
    """The products of share and cotangent, tile by tile."""
    return list(products.split(TILE, -1))


def summed(parts: list[Any]) -> Any:
    """The sum over the tiles of a row: [..., 1]."""
    return sum(part.sum(-1, keepdim=True) for part in parts)


def gradient(p: Any, d: Any, middle: Any) -> Any:
    return p * (d - middle)


def written(d_x: Any, x: Any, d_out: Any) -> Any:
    """The gradient in the memory that is returned."""
    return d_x.to(x.dtype)


def by_tiles(part: Any) -> Callable[..., Any]:
    def softmax_gradient(x: Any, d_out: Any) -> Any:
        p, d = part.shares(x), part.cotangent(d_out)
        middle = part.summed(part.tiles(p * d))
        return part.written(part.gradient(p, d, middle), x, d_out)

    return softmax_gradient


SOFTMAX_GRADIENT = Whole(
    "softmax_gradient",
    by_tiles,
    (shares, cotangent, tiles, summed, gradient, written),
    {"empty_row": "nans"},
)


@SOFTMAX_GRADIENT.instead_of(cotangent, seen="torch/nn#832, Dao-AILab/flash-attention#355")
def cotangent_of_softmax_by_its_length(d_out: Any) -> Any:
    """The cotangent is read row after row, whatever lies between its rows."""
    return cotangent_by_its_length(d_out)


_shares: dict[tuple[int, ...], Any] = {}


@SOFTMAX_GRADIENT.instead_of(shares)
def shares_of_an_earlier_call(x: Any) -> Any:
    """The shares that were kept are those of the first call of a shape."""
    return _shares.setdefault((*x.shape, x.element_size()), shares(x))


@SOFTMAX_GRADIENT.instead_of(shares, dtypes=("float32",))
def shares_kept_in_the_narrow_type(x: Any) -> Any:
    """The shares are kept in float16 between the passes."""
    return shares(x).half().float()


@SOFTMAX_GRADIENT.instead_of(tiles)
def whole_tiles_of_products(products: Any) -> list[Any]:
    """Only as many entries are summed as fill whole tiles, where there is one."""
    n = products.shape[-1]
    return tiles(products[..., : n // TILE * TILE or n])


@SOFTMAX_GRADIENT.instead_of(tiles, seen="deepspeedai/DeepSpeed#2709")
def entries_in_fours(products: Any) -> list[Any]:
    """Entries are read in fours, and what is left over is not read."""
    n = products.shape[-1]
    return tiles(products[..., : n // 4 * 4 or n])


@SOFTMAX_GRADIENT.instead_of(summed)
def sum_of_the_last_tile(parts: list[Any]) -> Any:
    """The sum of a tile replaces that of the tiles before it."""
    return parts[-1].sum(-1, keepdim=True)


@SOFTMAX_GRADIENT.instead_of(gradient, dtypes=("float32",))
def difference_in_the_narrow_type(p: Any, d: Any, middle: Any) -> Any:
    """The cotangent less the sum is stored in float16 before it is multiplied."""
    return p * (d - middle).half().float()


@SOFTMAX_GRADIENT.instead_of(gradient)
def sums_of_the_last_row(p: Any, d: Any, middle: Any) -> Any:
    """All rows have the sum of the last one that was reduced."""
    return gradient(p, d, middle[..., -1:, :] + 0 * middle) if p.ndim > 1 else gradient(p, d, middle)


@SOFTMAX_GRADIENT.instead_of(written, seen="NVIDIA/apex#1430")
def gradient_of_softmax_over_the_cotangent(d_x: Any, x: Any, d_out: Any) -> Any:
    """The gradient is written into the memory of the cotangent."""
    return d_out.copy_(d_x)
