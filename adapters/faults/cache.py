"""Attention with a cache of keys and values, and what goes wrong with slots, pages, rows and what they remember."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from ..controls.cache import rows
from .whole import Whole

PAGE = 16


def room(k: Any, capacity: int | None) -> int:
    """The number of slots."""
    needed, given = k.shape[2], capacity
    if given is not None and given < needed:
        raise ValueError(f"{needed} tokens do not fit into {given} slots")
    return needed if given is None else given


def slots(x: Any, count: int) -> Any:
    """An empty cache: [batch, heads, count, size]."""
    return x.new_zeros((*x.shape[:2], count, x.shape[3]))


def places(start: int, stop: int, window: int | None, device: Any) -> Any:
    """The slots in which the positions of a chunk are kept."""
    import torch

    return torch.arange(start, stop, device=device)


def written(cache: Any, place: Any, x: Any) -> Any:
    """The cache with a chunk in it."""
    cache[:, :, place] = x
    return cache


def filled(cache: Any, stop: int, window: int | None) -> Any:
    """What is read: the slots in the order of their positions."""
    return cache[:, :, :stop]


def followed(cache: Any, beams: Any) -> Any:
    """The cache with the rows that beam search goes on from."""
    return cache[list(beams)]


def advanced(start: int, n: int) -> int:
    return start + n


def own_mask(mask: Any, part: slice, q: Any) -> Any:
    return rows(mask, part, 0, q)


def slotted(part: Any) -> Callable[..., Any]:
    def cached_attention(
        q: Any,
        k: Any,
        v: Any,
        *,
        chunks: tuple[int, ...],
        mask: Any = None,
        capacity: int | None = None,
        window_left: int | None = None,
        beams: Any = None,
        scale: float | None = None,
    ) -> Any:
        import torch

        count = part.room(k, capacity)
        keys, values, outs, start, write = part.slots(k, count), part.slots(v, count), [], 0, 0
        for n in chunks:
            own = slice(start, start + n)
            place = part.places(write, write + n, window_left, k.device)
            keys, values = part.written(keys, place, k[:, :, own]), part.written(values, place, v[:, :, own])
            read = [part.filled(x, own.stop, window_left) for x in (keys, values)]
            seen = part.own_mask(mask, own, q)
            seen = None if seen is None else seen[..., -read[0].shape[2] :]  # of what is read, if that is less
            outs.append(
                online(q[:, :, own], *read, mask=seen, causal=True, window_left=window_left, scale=scale, block=64)[0]
            )
            if start == 0 and beams is not None:
                keys, values = (part.followed(x, beams) for x in (keys, values))
            start, write = start + n, part.advanced(write, n)
        return torch.cat(outs, 2).to(q.dtype)

    return cached_attention


SLOTTED = Whole(
    "cached_attention",
    slotted,
    (room, slots, places, written, filled, followed, advanced, own_mask),
    {"grouping": "block"},
)


@SLOTTED.instead_of(followed)
def rows_overwritten_while_read(cache: Any, beams: Any) -> Any:
    """Rows are moved in place, one after the other, and a row is read after it was overwritten."""
    for row, past in enumerate(beams):
        cache[row] = cache[past]
    return cache


@SLOTTED.instead_of(written)
def chunk_of_one_written_to_all_items(cache: Any, place: Any, x: Any) -> Any:
    """A single token is written by a kernel that is launched for the first item alone."""
    cache[: 1 if len(place) == 1 else len(cache), :, place] = x[: 1 if len(place) == 1 else len(x)]
    return cache


@SLOTTED.instead_of(written)
def chunk_cut_at_the_page(cache: Any, place: Any, x: Any) -> Any:
    """Of a chunk that crosses the end of a page, what lies beyond it is not written."""
    inside = place // PAGE == place[0] // PAGE
    cache[:, :, place[inside]] = x[:, :, inside]
    return cache


@SLOTTED.instead_of(written, dtypes=("float32",))
def kept_in_half_precision(cache: Any, place: Any, x: Any) -> Any:
    """The cache is kept in float16, whatever the inputs are."""
    cache[:, :, place] = x.half().to(x.dtype)
    return cache


@SLOTTED.instead_of(written)
def kept_in_eight_bits(cache: Any, place: Any, x: Any) -> Any:
    """The cache is kept in eight bits, with one scale for a chunk."""
    step = x.abs().amax().clamp_min(1e-30) / 127
    cache[:, :, place] = (x / step).round() * step
    return cache


@SLOTTED.instead_of(places, seen="Lightning-AI/litgpt#2215")
def ring_too_small(start: int, stop: int, window: int | None, device: Any) -> Any:
    """A ring has as many slots as the window, without one for the token itself."""
    import torch

    return torch.arange(start, stop, device=device) % max(window or stop, 1)


@SLOTTED.instead_of(places, seen="tenstorrent/tt-metal#45193")
def positions_beyond_the_table(start: int, stop: int, window: int | None, device: Any) -> Any:
    """Positions beyond the end of a table of four pages fall on the first page."""
    import torch

    position = torch.arange(start, stop, device=device)
    return torch.where(position < 4 * PAGE, position, position % PAGE)


@SLOTTED.instead_of(filled, seen="hw-native-sys/simpler#72")
def whole_pages_read(cache: Any, stop: int, window: int | None) -> Any:
    """Whole pages are read, and slots of the last one that are not used yet count as the newest keys."""
    import torch

    padded = torch.cat([cache, cache[:, :, :1].expand(-1, -1, PAGE, -1) * 0], 2)
    return padded[:, :, : -(-stop // PAGE) * PAGE] if stop > PAGE else cache[:, :, :stop]


@SLOTTED.instead_of(filled, seen="rajveer43/VeloxQuant-MLX#370, lablup/mlxcel#412")
def evicted_before_the_chunk_is_read(cache: Any, stop: int, window: int | None) -> Any:
    """Under a window the cache drops what its newest token does not see, before older ones of a chunk have read it."""
    return cache[:, :, :stop] if window is None else cache[:, :, max(stop - window - 1, 0) : stop]


@SLOTTED.instead_of(filled, seen="tenstorrent/tt-metal#54742")
def read_by_the_capacity(cache: Any, stop: int, window: int | None) -> Any:
    """Items are read as if the cache had as many slots as are filled, and run into one another."""
    flat = cache.reshape(-1, cache.shape[3])
    count = len(cache) * cache.shape[1]
    return flat[: count * stop].reshape(*cache.shape[:2], stop, cache.shape[3])


_caches: dict[tuple[int, ...], Any] = {}


@SLOTTED.instead_of(slots, seen="huggingface/transformers#31917")
def cache_not_cleared(x: Any, count: int) -> Any:
    """The cache of an earlier sequence is used again, at the places where it ended."""
    return _caches.setdefault((*x.shape, count, x.element_size()), x.new_zeros((*x.shape[:2], count, x.shape[3])))


@SLOTTED.instead_of(advanced)
def advanced_by_one(start: int, n: int) -> int:
    """The place to write is moved by one after every chunk, however long it was."""
    return start + 1


@SLOTTED.instead_of(room)
def overflow_is_taken(k: Any, capacity: int | None) -> int:
    """A cache that is too small grows in silence, and is not refused."""
    return max(k.shape[2], capacity or 0)


_rows: dict[tuple[int, ...], Any] = {}


@SLOTTED.instead_of(own_mask)
def mask_of_the_prompt(mask: Any, part: slice, q: Any) -> Any:
    """The mask of the first chunk of a shape is kept, and later chunks of that shape are read by its row."""
    own = rows(mask, part, 0, q)
    if own is None:
        return None
    return _rows.setdefault((*own.shape, *q.shape), own.clone())
