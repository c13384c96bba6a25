"""Neighborhood attention in tiles of queries and keys, as kernels compute it, and what goes wrong between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.neighborhood import fitting, seen_along
from .whole import Whole

TILE = 4


def read(x: Any) -> Any:
    """Keys or values as they are read from memory."""
    return x


def reached(seen: Any) -> tuple[int, int]:
    """The first place that queries of a tile see, and the one behind the last: `seen` is [queries, places]."""
    places = seen.any(0).nonzero()
    return int(places.min()), int(places.max()) + 1


def tiles(length: int) -> Iterator[slice]:
    """Tiles of queries along an axis."""
    for start in range(0, length, TILE):
        yield slice(start, min(start + TILE, length))


def hidden(scores: Any, seen: Any) -> Any:
    """The scores of a tile without those of keys that are not seen: [batch, heads, queries, keys]."""
    import torch

    return scores.masked_fill(~seen, -torch.inf)


def kept(old: Any, new: Any) -> Any:
    """What is kept of sums under an old maximum, where there is a new one."""
    import torch

    return torch.where(new == -torch.inf, 1.0, (old - new).exp())


def begun(like: Any) -> Any:
    """The sums of a tile, before anything is added."""
    return like.new_zeros(like.shape)


def tiling(part: Any) -> Callable[..., Any]:
    def neighborhood_attention(
        q: Any,
        k: Any,
        v: Any,
        *,
        kernel_height: int,
        kernel_width: int,
        dilation_height: int = 1,
        dilation_width: int = 1,
        stride_height: int = 1,
        stride_width: int = 1,
        causal_height: bool = False,
        causal_width: bool = False,
        scale: float | None = None,
    ) -> Any:
        import torch

        fitting(q, k, v)
        _, height, width, heads, dim = q.shape
        down = seen_along(height, kernel_height, dilation_height, stride_height, causal_height)
        across = seen_along(width, kernel_width, dilation_width, stride_width, causal_width)
        dtype = q.dtype
        k, v = (part.read(x).float().repeat_interleave(heads // x.shape[3], 3) for x in (k, v))
        q = q.float() * (dim**-0.5 if scale is None else scale)
        out, lse = q.new_zeros(*q.shape[:4], v.shape[4]), q.new_zeros(q.shape[:4])
        for rows in part.tiles(height):
            top, bottom = part.reached(down[rows])
            for columns in part.tiles(width):
                left, right = part.reached(across[columns])
                own = q[:, rows, columns].permute(0, 3, 1, 2, 4).flatten(2, 3)
                largest = torch.full(own.shape[:3], -torch.inf)
                total, summed = torch.zeros(own.shape[:3]), part.begun(torch.zeros(*own.shape[:3], v.shape[4]))
                for y in range(top, bottom):  # a row of keys at a time
                    keys, values = (x[:, y, left:right].transpose(1, 2) for x in (k, v))
                    scores = part.hidden(own @ keys.mT, torch.kron(down[rows, y, None], across[columns, left:right]))
                    new = largest.maximum(scores.amax(-1))
                    weights = torch.where(scores == -torch.inf, 0.0, (scores - new[..., None]).exp())
                    old = part.kept(largest, new)
                    total, largest = total * old + weights.sum(-1), new
                    summed.mul_(old[..., None]).add_(weights @ values)
                shape = out[:, rows, columns].shape[1:3]
                out[:, rows, columns] = (summed / total[..., None]).unflatten(2, shape).permute(0, 2, 3, 1, 4)
                lse[:, rows, columns] = (largest + total.log()).unflatten(2, shape).permute(0, 2, 3, 1)
        return {"out": out.to(dtype), "lse": lse}

    return neighborhood_attention


TILING = Whole("neighborhood_attention", tiling, (read, reached, tiles, hidden, kept, begun))
_sums: dict[tuple[int, ...], Any] = {}


@TILING.instead_of(read)
def maps_without_gaps(x: Any) -> Any:
    """Keys and values are read as if there were no gaps between their pixels, as in a view of a fused product."""
    sizes = x.shape[1:]
    steps = [sizes[1:].numel(), sizes[2:].numel(), sizes[3:].numel(), 1]
    return x.as_strided(x.shape, (sizes.numel(), *steps))


@TILING.instead_of(reached)
def reach_of_the_first_query(seen: Any) -> tuple[int, int]:
    """The keys of a tile are those that its first query sees."""
    return reached(seen[:1])


@TILING.instead_of(reached)
def reach_around_the_tile(seen: Any) -> tuple[int, int]:
    """The keys of a tile begin where its middle query sees the first, as if windows at the borders were not moved."""
    return reached(seen[len(seen) // 2 :])


@TILING.instead_of(tiles)
def last_tile_unwritten(length: int) -> Iterator[slice]:
    """Pixels that fill no tile are not written."""
    yield from (tile for tile in tiles(length) if tile.stop - tile.start == TILE or length < TILE)


@TILING.instead_of(hidden)
def hidden_by_a_large_number(scores: Any, seen: Any) -> Any:
    """What is not seen has 10 taken from its score, and is not left out."""
    return scores - 10.0 * ~seen


@TILING.instead_of(hidden)
def mask_of_full_tiles_left_out(scores: Any, seen: Any) -> Any:
    """Where the last query of a tile sees a row of keys whole, the mask is left out for all of them."""
    return scores if bool(seen[-1].all()) else hidden(scores, seen)


@TILING.instead_of(kept)
def sums_kept_as_they_are(old: Any, new: Any) -> Any:
    """Sums are not scaled where a row of keys has a new maximum."""
    import torch

    return torch.ones_like(new)


@TILING.instead_of(begun)
def sums_of_the_tile_before(like: Any) -> Any:
    """The sums of a tile begin with what the tile before it, of the same size, had."""
    return _sums.setdefault(tuple(like.shape), begun(like))
