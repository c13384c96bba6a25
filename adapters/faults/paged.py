"""Paged attention in stretches, and what goes wrong with memory, with merging, and with what outlives a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from ..controls.paged import CONVENTIONS
from .packed import merged
from .whole import Whole

STRETCH = 4
"""Pages that are taken at a time."""


def read(pool: Any, numbers: Any, count: int) -> Any:
    """The tokens of pages, of which the first `count` are there: [count, kv_heads, size]."""
    return pool[numbers].flatten(0, 1)[:count]


def numbers(table: Any, item: int) -> Any:
    """The pages of an item."""
    return table[item]


def items(k_lens: Any, page_size: int) -> list[int]:
    """Those whose results are written."""
    return list(range(len(k_lens)))


def first_seen(row: int, window: int | None, page_size: int) -> int:
    """The first page of which a query sees something."""
    return 0 if window is None else max(row - window, 0) // page_size


def stretched(part: Any) -> Callable[..., Any]:
    def paged_attention(
        q: Any,
        key_pages: Any,
        value_pages: Any,
        table: Any,
        k_lens: Any,
        *,
        scale: float | None = None,
        window_left: int | None = None,
    ) -> Any:
        import torch

        page_size, q_len = key_pages.shape[1], q.shape[1]
        out = q.new_full((*q.shape[:3], value_pages.shape[3]), float("nan"))  # what the memory held
        for item in part.items(k_lens, page_size):
            count, found = int(k_lens[item]), []
            row = count - q_len + torch.arange(q_len)
            own, last = part.numbers(table, item), max(-(-count // page_size), 1)
            for first in range(part.first_seen(int(row[0]), window_left, page_size), last, STRETCH):
                start, stop = first * page_size, min((first + STRETCH) * page_size, count)
                taken = own[first : -(-stop // page_size)]
                k, v = (part.read(x, taken, stop - start).transpose(0, 1)[None] for x in (key_pages, value_pages))
                back = row[:, None] - torch.arange(start, start + k.shape[2])
                seen = (back >= 0) & (back <= (count if window_left is None else window_left))
                found.append(online(q[item : item + 1].transpose(1, 2), k, v, mask=seen, scale=scale))
            out[item] = part.merged(found)[0].transpose(0, 1).to(q.dtype)
        return out

    return paged_attention


STRETCHED = Whole("paged_attention", stretched, (read, numbers, items, first_seen, merged), CONVENTIONS)


@STRETCHED.instead_of(read)
def unused_slots_cleared_in_place(pool: Any, numbers: Any, count: int) -> Any:
    """Slots behind the last token are cleared before they are read, in the pages of the caller."""
    places = pool.view(-1, *pool.shape[2:])
    for number in range(count, len(numbers) * pool.shape[1]):
        places[int(numbers[number // pool.shape[1]]) * pool.shape[1] + number % pool.shape[1]] = 0
    return read(pool, numbers, count)


@STRETCHED.instead_of(read, seen="Dao-AILab/flash-attention#1745, Dao-AILab/flash-attention#2374")
def unused_slots_times_zero(pool: Any, numbers: Any, count: int) -> Any:
    """Slots behind the last token are multiplied by zero, which NaN survives."""
    import torch

    whole = pool[numbers].flatten(0, 1)
    held = (torch.arange(len(whole)) < count)[:, None, None]
    return whole[:count] + (whole * ~held).sum(0) * 0


@STRETCHED.instead_of(read, dtypes=("float32",))
def pages_in_half_precision(pool: Any, numbers: Any, count: int) -> Any:
    """Pages are read in float16, whatever the inputs are."""
    return read(pool, numbers, count).half().to(pool.dtype)


@STRETCHED.instead_of(read, dtypes=("float32", "bfloat16"))
def pages_in_steps_of_their_largest(pool: Any, numbers: Any, count: int) -> Any:
    """Pages are read in 15 steps from their largest entry to nothing."""
    whole = read(pool, numbers, count)
    step = whole.abs().amax().clamp_min(1e-30) / 15 if whole.numel() else 1.0
    return (whole / step).round() * step


_tables: dict[tuple[int, ...], Any] = {}


@STRETCHED.instead_of(numbers)
def table_of_another_call(table: Any, item: int) -> Any:
    """The tables are those of the first call with tables of that shape."""
    return _tables.setdefault(tuple(table.shape), table.clone())[item].clamp_max(table.max())


@STRETCHED.instead_of(items)
def first_item_alone_where_pages_are_split(k_lens: Any, page_size: int) -> list[int]:
    """Where the pages of some item are split, the stretches of the first item alone are merged and written."""
    return [0] if max(k_lens.tolist()) > STRETCH * page_size else items(k_lens, page_size)


@STRETCHED.instead_of(items)
def idle_items_unwritten(k_lens: Any, page_size: int) -> list[int]:
    """The rows of items without tokens are not written."""
    return [item for item in items(k_lens, page_size) if k_lens[item] > 0]


@STRETCHED.instead_of(first_seen, seen="openvinotoolkit/openvino#38034")
def pages_of_the_window_counted_from_its_width(row: int, window: int | None, page_size: int) -> int:
    """As many pages are read as the window is wide, and one that it reaches into at its start is left out."""
    return 0 if window is None else max(row // page_size - window // page_size, 0)


@STRETCHED.instead_of(merged)
def last_stretch_alone_of_pages(parts: list[Any]) -> Any:
    """Of several stretches of pages, the last one is taken for the result."""
    return parts[-1][0]


@STRETCHED.instead_of(merged)
def stretches_of_pages_averaged(parts: list[Any]) -> Any:
    """Stretches of pages are averaged, whatever their weights are."""
    return sum(out for out, _ in parts) / len(parts)
