"""Multi-scale deformable attention as kernels compute it, level by level, and how it goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.deformable import fitting
from .whole import Whole


def starts(shapes: list[list[int]]) -> list[int]:
    """Where the map of each level begins."""
    areas = [height * width for height, width in shapes]
    return [sum(areas[:level]) for level in range(len(areas))]


def placed(location: Any, size: int) -> Any:
    """The places of points along an axis, in pixels from the centre of the first."""
    return location.float() * size - 0.5


def summed(like: Any) -> Any:
    """What queries read, before anything is."""
    return like.new_zeros(like.shape)


def items(batch: int) -> range:
    """The items that are looked at."""
    return range(batch)


def sampling(part: Any) -> Callable[..., Any]:
    def deformable_attention(value: Any, spatial_shapes: Any, locations: Any, weights: Any) -> Any:
        import torch

        shapes = spatial_shapes.tolist()
        fitting(value, shapes, locations, weights)
        batch, queries, heads = weights.shape[:3]
        total = part.summed(torch.zeros(batch, queries, heads, value.shape[3]))
        head = torch.arange(heads)[None, :, None]
        for level, (start, (height, width)) in enumerate(zip(part.starts(shapes), shapes, strict=True)):
            x, y = (part.placed(locations[:, :, :, level, :, axis], (width, height)[axis]) for axis in (0, 1))
            for down in (0, 1):
                for right in (0, 1):
                    column, row = x.floor() + right, y.floor() + down
                    share = (1 - (x - column).abs()) * (1 - (y - row).abs())
                    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
                    at = (start + row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
                    for item in part.items(batch):
                        found = value[item].float()[at[item].clamp(max=value.shape[1] - 1), head]
                        kept = torch.where(inside[item][..., None], found, 0.0)
                        by = (share[item] * weights[item, :, :, level].float())[..., None]
                        total[item] += (kept * by).sum(2)
        return total.flatten(2).to(value.dtype)

    return deformable_attention


SAMPLING = Whole("deformable_attention", sampling, (starts, placed, summed, items))
_totals: dict[tuple[int, ...], Any] = {}


@SAMPLING.instead_of(starts)
def starts_in_a_byte(shapes: list[list[int]]) -> list[int]:
    """The beginnings of levels are kept in six bits."""
    return [start % 64 for start in starts(shapes)]


@SAMPLING.instead_of(placed, dtypes=("float32",))
def places_in_half_precision(location: Any, size: int) -> Any:
    """Places are computed in half precision."""
    return (location.half() * size - 0.5).float()


@SAMPLING.instead_of(summed)
def reads_of_the_call_before(like: Any) -> Any:
    """What is read is added to what the call before has left."""
    return _totals.setdefault(tuple(like.shape), summed(like))


@SAMPLING.instead_of(items)
def last_part_of_the_batch_lost(batch: int) -> range:
    """Items are taken 64 at a time, and those behind the last 64 are lost, where there are more."""
    return range(batch // 64 * 64 or batch)
