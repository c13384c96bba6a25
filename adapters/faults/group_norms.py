"""Group normalisation in tiles of pixels, as kernels compute it, and its gradients in parts, and how they go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.group_norms import by_channel, fitting
from .whole import Whole, in_memory

TILE = 16


def read(x: Any) -> Any:
    """An array as it is read from memory."""
    return x


def tiles(size: int) -> Iterator[slice]:
    """The parts of a row of entries."""
    for start in range(0, size, TILE):
        yield slice(start, min(start + TILE, size))


def merged(count: int, mean: Any, squares: Any, part: Any) -> tuple[Any, Any]:
    """The mean and the squares about it, with a further part of the entries."""
    size = part.shape[-1]
    own = part.mean(-1, keepdim=True)
    gap = own - mean
    total = squares + ((part - own) ** 2).sum(-1, keepdim=True) + gap**2 * (count * size / (count + size))
    return mean + gap * (size / (count + size)), total


def begun(like: Any) -> Any:
    """The squares of all groups, before any are added."""
    return like.new_zeros(like.shape)


def divided(rows: Any, mean: Any, variance: Any, eps: float) -> Any:
    """The entries of groups, normalised."""
    return (rows - mean) * (variance + eps).rsqrt()


def tiled(part: Any) -> Callable[..., Any]:
    def group_norm(x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5, silu: bool = False) -> Any:
        import torch

        fitting(x, weight, groups)
        rows = part.read(x).float().reshape(len(x), groups, -1)
        mean, count = torch.zeros(*rows.shape[:2], 1), 0
        squares = part.begun(mean)
        for tile in part.tiles(rows.shape[-1]):
            own = rows[..., tile]
            mean, squares = part.merged(count, mean, squares, own)
            count += own.shape[-1]
        normed = part.divided(rows, mean, squares / rows.shape[-1], eps).reshape(x.shape)
        y = normed * by_channel(weight.float()) + by_channel(bias.float())
        return (torch.nn.functional.silu(y) if silu else y).to(x.dtype)

    return group_norm


BLOCK = {"grouping": "block"}
TILED = Whole("group_norm", tiled, (read, tiles, merged, begun, divided), BLOCK)
_squares: dict[tuple[int, ...], Any] = {}


@TILED.instead_of(read)
def maps_read_without_gaps(x: Any) -> Any:
    """Maps are read as if there were no gaps between their pixels, in the order of a contiguous array."""
    return in_memory(x, x.shape)


@TILED.instead_of(tiles)
def last_tile_of_pixels_lost(size: int) -> Iterator[slice]:
    """Entries that fill no tile do not count in the statistics."""
    yield from (tile for tile in tiles(size) if tile.stop - tile.start == TILE or size < TILE)


@TILED.instead_of(tiles)
def tiles_of_lanes_overlap(size: int) -> Iterator[slice]:
    """The last tile is moved back into the entries, some of which count twice."""
    for tile in tiles(size):
        yield tile if tile.stop - tile.start == TILE or size < TILE else slice(size - TILE, size)


@TILED.instead_of(merged)
def moments_without_the_gap(count: int, mean: Any, squares: Any, part: Any) -> tuple[Any, Any]:
    """The squares of parts are added as they are, though their means differ."""
    return merged(count, mean, squares, part)[0], squares + part.var(-1, correction=0, keepdim=True) * part.shape[-1]


@TILED.instead_of(merged)
def mean_of_the_part_means(count: int, mean: Any, squares: Any, part: Any) -> tuple[Any, Any]:
    """The means of parts count alike, whatever their size is."""
    done = -(-count // TILE)
    return (mean * done + part.mean(-1, keepdim=True)) / (done + 1), merged(count, mean, squares, part)[1]


@TILED.instead_of(begun)
def squares_of_the_call_before(like: Any) -> Any:
    """The squares are added to what a call of this size left."""
    import torch

    found = _squares.setdefault(tuple(like.shape), torch.zeros(like.shape))
    found += 0.125
    return found.clone()


@TILED.instead_of(divided)
def variance_rounded_to_half(rows: Any, mean: Any, variance: Any, eps: float) -> Any:
    """The variance is stored in half precision, where large ones are infinite."""
    return divided(rows, mean, variance.half().float(), eps)


def entries(x: Any, groups: int) -> Any:
    """The entries of the groups of items: [batch, groups, members, pixels]."""
    return x.float().reshape(len(x), groups, -1, x[0, 0].numel())


def parted(size: int) -> Iterator[slice]:
    """The parts of the batch."""
    for start in range(0, size, 4):
        yield slice(start, start + 4)


def summed(total: Any, found: Any) -> Any:
    """The gradients of weight and bias with those of a further part of the batch."""
    return total + found


def measured(x: Any) -> int:
    """The number of entries of a group, of which `x` is [members, pixels]."""
    return x.numel()


def in_parts(part: Any) -> Callable[..., Any]:
    def group_norm_gradient(x: Any, weight: Any, d_out: Any, *, groups: int, eps: float = 1e-5) -> dict[str, Any]:
        import torch

        fitting(x, weight, groups)
        wide, given = part.entries(x, groups), part.entries(d_out, groups)
        own, d_x = weight.float().reshape(groups, -1, 1), torch.zeros(wide.shape)
        size = part.measured(wide[0, 0])
        sums = torch.zeros(2, *own.shape[:2])
        for items in part.parted(len(x)):
            rows, d = wide[items], given[items]
            variance, mean = torch.var_mean(rows, (2, 3), correction=0, keepdim=True)
            normed = (rows - mean) * (variance + eps).rsqrt()
            middle, along = ((one * own).sum((2, 3), keepdim=True) / size for one in (d, d * normed))
            d_x[items] = (d * own - middle - normed * along) * (variance + eps).rsqrt()
            sums = part.summed(sums, torch.stack([(d * normed).sum((0, 3)), d.sum((0, 3))]))
        d_weight, d_bias = sums.flatten(1).to(x.dtype)
        return {"d_x": d_x.reshape(x.shape).to(x.dtype), "d_weight": d_weight.clone(), "d_bias": d_bias.clone()}

    return group_norm_gradient


IN_PARTS = Whole("group_norm_gradient", in_parts, (entries, parted, summed, measured), BLOCK)


@IN_PARTS.instead_of(entries)
def entries_read_without_gaps(x: Any, groups: int) -> Any:
    """Maps and cotangents are read as if there were no gaps between their pixels."""
    return entries(maps_read_without_gaps(x), groups)


@IN_PARTS.instead_of(parted)
def whole_parts_alone(size: int) -> Iterator[slice]:
    """Items that fill no part of the batch have no gradients."""
    yield from (part for part in parted(size) if part.stop <= size or size < 4)


@IN_PARTS.instead_of(summed)
def sums_of_the_last_part(total: Any, found: Any) -> Any:
    """The gradients of weight and bias are those of the last part of the batch."""
    return found


@IN_PARTS.instead_of(summed)
def sums_stored_narrow(total: Any, found: Any) -> Any:
    """The gradients of weight and bias are kept in bfloat16 between parts of the batch."""
    return (total + found).bfloat16().float()


@IN_PARTS.instead_of(measured)
def size_of_a_row(x: Any) -> int:
    """A group is taken to have as many entries as one of its channels."""
    return x.shape[-1]
