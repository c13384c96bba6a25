"""Attention over packs, pages and caches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from . import fault
from .parts import band, shares

Array = Any
PACKED = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}
PAGED = {"empty_row": "zeros", "grouping": "block", "masked_nonfinite": "ignored", "unused_entries": "unread"}


def one_item(q: Array, k: Array, v: Array, seen: Array, scale: float | None = None) -> Array:
    """Attention of one item: q [q_len, heads, dim], k [k_len, kv_heads, dim]; head by head."""
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    factor = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    for h in range(q.shape[1]):
        g = h * k.shape[1] // q.shape[1]
        s = np.where(seen, q[:, h] @ k[:, g].T * factor, -np.inf)
        out[:, h] = shares(s) @ v[:, g]
    return out


# Packs


@fault(
    "Dao-AILab/flash-attention#1155",
    "packed_attention",
    names=("packed_attention.items_without_keys_skipped", "fault:items_without_keys_unwritten"),
    when="",
    conventions=PACKED,
)
def empty_items_left_out(q: Array, k: Array, v: Array, q_lens: Array, k_lens: Array, *, causal: bool = False) -> Array:
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    lens = [(a, b) for a, b in zip(q_lens, k_lens, strict=True) if b > 0]
    i = j = 0
    for a, b in lens:
        out[i : i + a] = one_item(q[i : i + a], k[j : j + b], v[j : j + b], band(a, b, causal=causal))
        i, j = i + a, j + b
    return out


@fault(
    "Dao-AILab/flash-attention#1537",
    "packed_attention",
    names=("packed_attention.one_query_each",),
    when="",
    conventions=PACKED,
)
def decode_takes_a_query_for_an_item(
    q: Array, k: Array, v: Array, q_lens: Array, k_lens: Array, *, causal: bool = False
) -> Array:
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    ends = np.cumsum(k_lens)
    if max(q_lens, default=0) <= 1:
        for i in range(len(q)):
            keys = slice(ends[i] - k_lens[i], ends[i])
            out[i : i + 1] = one_item(q[i : i + 1], k[keys], v[keys], np.ones((1, k_lens[i]), bool))
        return out
    i = j = 0
    for a, b in zip(q_lens, k_lens, strict=True):
        out[i : i + a] = one_item(q[i : i + a], k[j : j + b], v[j : j + b], band(a, b, causal=causal))
        i, j = i + a, j + b
    return out


@fault(
    "xlite-dev/ffpa-attn#300, in a pack",
    "packed_attention",
    names=("packed_attention.other_alignment", "causal_alignment = top_left"),
    when="causal",
    conventions=PACKED,
)
def packed_from_the_first_key(
    q: Array, k: Array, v: Array, q_lens: Array, k_lens: Array, *, causal: bool = False
) -> Array:
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    i = j = 0
    for a, b in zip(q_lens, k_lens, strict=True):
        seen = np.tril(np.ones((a, b), bool)) if causal else np.ones((a, b), bool)
        out[i : i + a] = one_item(q[i : i + a], k[j : j + b], v[j : j + b], seen)
        i, j = i + a, j + b
    return out


@fault(
    "huggingface/transformers#46634",
    "packed_attention",
    names=("packed_attention.earlier_items_by_row", "packed_attention.all_together"),
    when="causal and items >= 2",
    conventions=PACKED,
)
def one_sequence_if_causal(
    q: Array, k: Array, v: Array, q_lens: Array, k_lens: Array, *, causal: bool = False
) -> Array:
    if causal:  # the pack is not noticed
        return one_item(q, k, v, band(len(q), len(k), causal=True))
    q_item, k_item = (np.repeat(np.arange(len(x)), x) for x in (q_lens, k_lens))
    return one_item(q, k, v, q_item[:, None] == k_item)


@fault(
    "Dao-AILab/flash-attention#1104",
    "packed_attention",
    names=("packed_attention.cut_by_queries",),
    when="",
    conventions=PACKED,
)
def keys_by_the_sums_of_queries(
    q: Array, k: Array, v: Array, q_lens: Array, k_lens: Array, *, scale: float | None = None
) -> Array:
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    cu = np.concatenate([[0], np.cumsum(q_lens)])
    for a, b in itertools.pairwise(cu):
        keys, values = k[a:b], v[a:b]
        out[a:b] = one_item(q[a:b], keys, values, np.ones((b - a, len(keys)), bool), scale)
    return out


@fault(
    "a window that is open in a pack's decode",
    "packed_attention",
    names=("packed_attention.window_ignored_in_decode",),
    when="",
    conventions=PACKED,
)
def packed_decode_without_window(
    q: Array,
    k: Array,
    v: Array,
    q_lens: Array,
    k_lens: Array,
    *,
    causal: bool = False,
    window_left: int | None = None,
) -> Array:
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    i = j = 0
    for a, b in zip(q_lens, k_lens, strict=True):
        left = window_left if a > 1 else None
        out[i : i + a] = one_item(q[i : i + a], k[j : j + b], v[j : j + b], band(a, b, causal=causal, left=left))
        i, j = i + a, j + b
    return out


# Pages


def looked_up(pages: Array, row: Array, n: int) -> Array:
    """The first n tokens of an item, by its row of the table."""
    size = pages.shape[1]
    slots = np.arange(n)
    return pages[row[slots // size], slots % size] if n else pages[0, :0]


@fault(
    "vllm-project/vllm#2064",
    "paged_attention",
    names=("paged_attention.window_of_last_query",),
    when="window_left is not None and q_len > 1",
    conventions=PAGED,
)
def window_of_the_whole_chunk(
    q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array, *, window_left: int | None = None
) -> Array:
    out = np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    for b, n in enumerate(k_lens):
        k, v = looked_up(key_pages, table[b], n), looked_up(value_pages, table[b], n)
        start = 0 if window_left is None else max(n - 1 - window_left, 0)
        seen = band(q.shape[1], n, causal=True) & (np.arange(n) >= start)
        if window_left is not None:
            seen &= band(q.shape[1], n, left=window_left)
        out[b] = one_item(q[b], k, v, seen)
    return out


@fault(
    "a truncated table indexed by absolute positions",
    "paged_attention",
    names=("paged_attention.window_ignored",),
    when="window_left is not None",
    conventions={**PAGED, "unused_entries": "numbers"},
)
def pages_of_the_window_by_position(
    q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array, *, window_left: int | None = None
) -> Array:
    size, out = key_pages.shape[1], np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    for b, n in enumerate(k_lens):
        row = table[b]
        if window_left is not None:
            first = max(n - q.shape[1] - window_left, 0) // size
            row = np.zeros_like(row)  # the table is cut to the pages of the window, and filled up with block 0
            used = -(-int(n) // size)
            row[: max(used - first, 0)] = table[b, first:used]
        k, v = looked_up(key_pages, row, n), looked_up(value_pages, row, n)
        out[b] = one_item(q[b], k, v, band(q.shape[1], n, causal=True, left=window_left))
    return out


@fault(
    "flashinfer-ai/flashinfer#640",
    "paged_attention",
    names=("paged_attention.batch_for_length", "fault:batch_and_length_exchanged"),
    when="",
    conventions=PAGED,
)
def batch_and_queries_interchanged(
    q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array
) -> Array:
    batch, q_len = q.shape[:2]
    out = np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    for b, n in enumerate(k_lens):
        k, v = looked_up(key_pages, table[b], n), looked_up(value_pages, table[b], n)
        place = np.arange(q_len)[:, None] + int(n) - batch
        out[b] = one_item(q[b], k, v, np.arange(n) <= place)
    return out


@fault(
    "vllm-project/vllm#30887",
    "paged_attention",
    names=("masked_nonfinite = propagates", "fault:unused_slots_times_zero"),
    when="",
    conventions=PAGED,
)
def last_page_read_with_its_nan(q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array) -> Array:
    size, out = key_pages.shape[1], np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    for b, n in enumerate(k_lens):
        whole = -(-int(n) // size) * size
        k, v = looked_up(key_pages, table[b], whole), looked_up(value_pages, table[b], whole)
        place = np.arange(q.shape[1])[:, None] + int(n) - q.shape[1]
        out[b] = one_item(q[b], k, v, np.arange(whole) <= place)
    return out


@fault(
    "vllm-project/vllm#2231",
    "paged_attention",
    names=("paged_attention.last_page_whole",),
    when="",
    conventions={**PAGED, "masked_nonfinite": "propagates"},
)
def last_page_read_whole(q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array) -> Array:
    size, q_len = key_pages.shape[1], q.shape[1]
    out = np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    for b, n in enumerate(k_lens):
        if n == 0:
            continue
        whole = -(-int(n) // size) * size
        k, v = looked_up(key_pages, table[b], whole), looked_up(value_pages, table[b], whole)
        place = np.arange(q_len)[:, None] + int(n) - q_len
        seen = np.arange(whole) <= place
        seen[:, int(n) :] = (place >= 0) & (place == n - 1) if q_len == 1 else seen[:, int(n) :]
        if q_len == 1:
            seen[:] = True
        out[b] = one_item(q[b], k, v, seen)
    return out


@fault(
    "tenstorrent/tt-metal#37927, offsets of a page",
    "paged_attention",
    names=("paged_attention.page_of_sixteen",),
    line="page",
    when="page_size != 16",
    conventions={**PAGED, "unused_entries": "numbers"},
)
def slots_by_sixteen(q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array) -> Array:
    size, out = key_pages.shape[1], np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    for b, n in enumerate(k_lens):
        slots = np.arange(n)
        pages = table[b][np.minimum(slots // 16, table.shape[1] - 1)]
        k, v = key_pages[pages, slots % size], value_pages[pages, slots % size]
        out[b] = one_item(q[b], k, v, band(q.shape[1], n, causal=True))
    return out


# Caches


def fed(q: Array, k: Array, v: Array, chunks: Any, step: Any) -> Array:
    """Feed a sequence chunk by chunk to `step(item, chunk of queries, keys so far, values so far, past)`."""
    out = np.zeros((*q.shape[:3], v.shape[-1]), q.dtype)
    for b in range(len(q)):
        past = 0
        for n in chunks:
            end = past + int(n)
            queries = q[b, :, past:end].swapaxes(0, 1)
            keys, values = k[b, :, :end].swapaxes(0, 1), v[b, :, :end].swapaxes(0, 1)
            out[b, :, past:end] = step(b, queries, keys, values, past).swapaxes(0, 1)
            past = end
    return out


@fault(
    "onnx/onnx#8054",
    "cached_attention",
    names=("cached_attention.top_left",),
    when="",
    conventions={"grouping": "block"},
)
def past_not_added(q: Array, k: Array, v: Array, *, chunks: Array) -> Array:
    def step(item: int, queries: Array, keys: Array, values: Array, past: int) -> Array:
        return one_item(queries, keys, values, np.tril(np.ones((len(queries), len(keys)), bool)))

    return fed(q, k, v, chunks, step)


@fault(
    "pytorch/pytorch#144858, in a cache",
    "cached_attention",
    names=("cached_attention.top_left_in_decode",),
    when="",
    conventions={"grouping": "block"},
)
def single_query_sees_the_first_slot(
    q: Array, k: Array, v: Array, *, chunks: Array, scale: float | None = None
) -> Array:
    def step(item: int, queries: Array, keys: Array, values: Array, past: int) -> Array:
        if len(queries) == 1:
            return one_item(queries, keys, values, np.tril(np.ones((1, len(keys)), bool)), scale)
        return one_item(queries, keys, values, band(len(queries), len(keys), causal=True), scale)

    return fed(q, k, v, chunks, step)


@fault(
    "huggingface/transformers#30414",
    "cached_attention",
    names=("cached_attention.unused_slots",),
    when="capacity is not None",
    conventions={"grouping": "block"},
)
def unused_slots_take_part(q: Array, k: Array, v: Array, *, chunks: Array, capacity: int | None = None) -> Array:
    size = q.shape[2] if capacity is None else int(capacity)

    def step(item: int, queries: Array, keys: Array, values: Array, past: int) -> Array:
        n = len(keys)
        cache_k = np.zeros((size, *keys.shape[1:]), keys.dtype)
        cache_v = np.zeros((size, *values.shape[1:]), values.dtype)
        cache_k[:n], cache_v[:n] = keys, values
        hidden = (np.arange(size) > np.arange(len(queries))[:, None] + past) & (np.arange(size) < n)
        if capacity is None:
            hidden = np.arange(size) > np.arange(len(queries))[:, None] + past
        return one_item(queries, cache_k, cache_v, ~hidden)

    return fed(q, k, v, chunks, step)


@fault(
    "vllm-project/vllm, a window that is counted from the end of a chunk",
    "cached_attention",
    names=("cached_attention.window_of_chunk",),
    when="window_left is not None",
    conventions={"grouping": "block"},
)
def chunk_window_from_its_end(q: Array, k: Array, v: Array, *, chunks: Array, window_left: int | None = None) -> Array:
    def step(item: int, queries: Array, keys: Array, values: Array, past: int) -> Array:
        seen = band(len(queries), len(keys), causal=True, left=window_left)
        if window_left is not None:
            kept = len(keys) - 1 - window_left
            seen = seen & (np.arange(len(keys)) >= kept)
        return one_item(queries, keys, values, seen)

    return fed(q, k, v, chunks, step)


@fault(
    "onnx/onnx#8068, a mask cut to the chunk",
    "cached_attention",
    names=("cached_attention.mask_of_chunk",),
    when="mask",
    conventions={"grouping": "block"},
)
def mask_of_the_chunk_alone(q: Array, k: Array, v: Array, *, chunks: Array, mask: Array = None) -> Array:
    whole = None if mask is None else np.broadcast_to(mask, (*q.shape[:3], q.shape[2]))
    out = np.zeros((*q.shape[:3], v.shape[-1]), q.dtype)
    groups, past = q.shape[1] // k.shape[1], 0
    k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
    for n in chunks:
        end = past + int(n)
        s = q[:, :, past:end] @ k[:, :, :end].swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
        seen = np.broadcast_to(band(end - past, end, causal=True), s.shape).copy()
        if whole is not None:
            seen[..., past:] &= whole[:, :, past:end, past:end]
        out[:, :, past:end] = shares(np.where(seen, s, -np.inf)) @ v[:, :, :end]
        past = end
    return out
