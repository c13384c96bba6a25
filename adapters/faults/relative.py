"""Attention with relative positions in tiles, as kernels compute it, and what goes wrong with rows and tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.relative import fitting, hidden
from .whole import Whole

TILE = 4


def tiles(length: int) -> Iterator[slice]:
    """Tiles of queries, or of keys."""
    for start in range(0, length, TILE):
        yield slice(start, min(start + TILE, length))


def first_row(rows: slice, columns: slice, length: int) -> int:
    """The row of distances that the last query of a tile has for the first key of a tile."""
    return length - rows.stop + columns.start


def skewed(products: Any) -> Any:
    """Of products with the distances of a tile [..., queries, distances], those of its keys."""
    import torch

    queries, distances = products.shape[-2:]
    keys = distances - queries + 1
    index = queries - 1 - torch.arange(queries)[:, None] + torch.arange(keys)
    return products.gather(-1, index.expand(*products.shape[:-1], keys))


def kept(old: Any, new: Any) -> Any:
    """What is kept of sums under an old maximum, where there is a new one."""
    import torch

    return torch.where(new == -torch.inf, 1.0, (old - new).exp())


def begun(like: Any) -> Any:
    """The sums of a tile, before anything is added."""
    return like.new_zeros(like.shape)


def tiling(part: Any) -> Callable[..., Any]:
    def relative_attention(
        q: Any,
        k: Any,
        v: Any,
        r: Any,
        content_bias: Any,
        position_bias: Any,
        *,
        causal: bool = False,
        scale: float | None = None,
    ) -> Any:
        import torch

        fitting(q, k, v, r)
        length, keys = q.shape[2], k.shape[2]
        factor = q.shape[3] ** -0.5 if scale is None else scale
        by_key, by_row = ((q.float() + bias.float()[:, None]) * factor for bias in (content_bias, position_bias))
        out, lse = torch.zeros(*q.shape[:3], v.shape[3]), torch.zeros(q.shape[:3])
        unseen = hidden(length, keys) if causal else torch.zeros(length, keys, dtype=torch.bool)
        for rows in part.tiles(length):
            largest = torch.full(lse[:, :, rows].shape, -torch.inf)
            total, summed = torch.zeros(largest.shape), part.begun(out[:, :, rows])
            for columns in tiles(keys):
                first = part.first_row(rows, columns, length)
                last = first + rows.stop - rows.start + columns.stop - columns.start - 1
                products = by_row[:, :, rows] @ r[:, max(first, 0) : last].float().mT
                scores = by_key[:, :, rows] @ k[:, :, columns].float().mT + part.skewed(products)
                scores = scores.masked_fill(unseen[rows, columns], -torch.inf)
                new = largest.maximum(scores.amax(-1))
                weights = torch.where(scores == -torch.inf, 0.0, (scores - new[..., None]).exp())
                old = part.kept(largest, new)
                total, largest = total * old + weights.sum(-1), new
                summed.mul_(old[..., None]).add_(weights @ v[:, :, columns].float())
            out[:, :, rows], lse[:, :, rows] = summed / total[..., None], largest + total.log()
        return {"out": out.to(q.dtype), "lse": lse}

    return relative_attention


TILING = Whole("relative_attention", tiling, (tiles, first_row, skewed, kept, begun))
_sums: dict[tuple[int, ...], Any] = {}


@TILING.instead_of(tiles)
def queries_of_whole_tiles(length: int) -> Iterator[slice]:
    """Queries that fill no tile are not written."""
    yield from (tile for tile in tiles(length) if tile.stop - tile.start == TILE or length < TILE)


@TILING.instead_of(first_row)
def rows_of_a_whole_tile(rows: slice, columns: slice, length: int) -> int:
    """A tile of queries is taken to be whole, so that the last one begins with other distances."""
    return max(length - rows.start - TILE + columns.start, 0) if length > TILE else first_row(rows, columns, length)


@TILING.instead_of(first_row)
def rows_of_the_first_tile(rows: slice, columns: slice, length: int) -> int:
    """All tiles of queries have the distances of the first."""
    return length - min(TILE, length) + columns.start


@TILING.instead_of(skewed)
def rolled_in_the_tile(products: Any) -> Any:
    """The products of a tile are rolled by their query, so that what leaves a row comes back at its other end."""
    import torch

    queries, distances = products.shape[-2:]
    keys = distances - queries + 1
    index = (torch.arange(queries)[:, None] * -1 + torch.arange(keys)) % keys
    return products[..., queries - 1 :].gather(-1, index.expand(*products.shape[:-1], keys))


@TILING.instead_of(kept)
def sums_kept_under_the_old_maximum(old: Any, new: Any) -> Any:
    """Sums are not scaled where a tile of keys has a new maximum."""
    import torch

    return torch.ones_like(new)


@TILING.instead_of(begun)
def sums_of_the_queries_before(like: Any) -> Any:
    """The sums of a tile of queries begin with what the tile before it, of the same size, had."""
    return _sums.setdefault(tuple(like.shape), begun(like))
