"""Attention over codes with scales, with sinks, and with masks that are lost on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fault
from .parts import averaged, band, grouped, scores_of, shares
from .sequences import PACKED, PAGED, looked_up, one_item

Array = Any
DENSE = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}
INT8 = {"kv_dtype": ("int8",)}


# Codes


@fault(
    "a masked path that reads values without their scale",
    "attention",
    names=("quantized_attention.value_scale_ignored",),
    when="mask",
    conventions=DENSE,
    limits=INT8,
)
def masked_values_without_scale(
    q: Array, k: Array, v: Array, *, k_scale: Array, v_scale: Array, mask: Array = None, causal: bool = False
) -> Array:
    k = k.astype(np.float32) * k_scale
    v = v.astype(np.float32) * (1 if mask is not None else v_scale)
    scores = scores_of(q, k, None)
    seen = np.broadcast_to(band(q.shape[2], k.shape[2], causal=causal), scores.shape)
    return averaged(scores, seen if mask is None else seen & mask, grouped(q, v).astype(q.dtype))


@fault(
    "vllm-project/vllm, scales by logical block",
    "paged_attention",
    names=("quantized_pages.scale_by_place_in_the_table",),
    when="",
    conventions={**PAGED, "unused_entries": "numbers"},
    limits=INT8,
)
def scales_by_logical_page(
    q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array, *, k_scale: Array, v_scale: Array
) -> Array:
    size, out = key_pages.shape[1], np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    for b, n in enumerate(k_lens):
        slots = np.arange(n)
        k, v = (
            looked_up(pages, table[b], n).astype(np.float32)
            * s[slots // size if len(s) > 1 else 0 * slots, slots % size if s.shape[1] > 1 else 0 * slots]
            for pages, s in ((key_pages, k_scale), (value_pages, v_scale))
        )
        out[b] = one_item(q[b], k, v, band(q.shape[1], n, causal=True))
    return out


@fault(
    "a window kernel of pages that does not know of scales of values",
    "paged_attention",
    names=("quantized_pages.value_scale_ignored",),
    when="window_left is not None",
    conventions={**PAGED, "unused_entries": "numbers"},
    limits=INT8,
)
def windows_without_value_scale(
    q: Array,
    key_pages: Array,
    value_pages: Array,
    table: Array,
    k_lens: Array,
    *,
    k_scale: Array,
    v_scale: Array,
    window_left: int | None = None,
) -> Array:
    out = np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    keys = key_pages.astype(np.float32) * k_scale
    values = value_pages.astype(np.float32) * (v_scale if window_left is None else 1)
    for b, n in enumerate(k_lens):
        seen = band(q.shape[1], n, causal=True, left=window_left)
        out[b] = one_item(q[b], looked_up(keys, table[b], n), looked_up(values, table[b], n), seen)
    return out


# Sinks


def sunk(scores: Array, seen: Array, v: Array, sink: Array) -> Array:
    """Shares of scores beside a sink [heads], whose own share goes nowhere."""
    scores = np.where(seen, scores, -np.inf)
    beside = np.broadcast_to(sink[:, None, None], (*scores.shape[:3], 1))
    weights = shares(np.concatenate([scores, beside], axis=-1))[..., :-1]
    return (np.where(seen.any(-1, keepdims=True), weights, 0) @ v).astype(v.dtype)


@fault(
    "vllm-project/vllm, windows without sinks",
    "attention",
    names=("attention.sink_ignored",),
    when="sink and window_left is not None",
    conventions=DENSE,
)
def sink_lost_in_windows(
    q: Array, k: Array, v: Array, *, sink: Array = None, causal: bool = False, window_left: int | None = None
) -> Array:
    scores = scores_of(q, k, None)
    seen = np.broadcast_to(band(q.shape[2], k.shape[2], causal=causal, left=window_left), scores.shape)
    if sink is None or window_left is not None:
        return averaged(scores, seen, grouped(q, v))
    return sunk(scores, seen, grouped(q, v), sink)


@fault(
    "a decode kernel of pages that knows no sinks",
    "paged_attention",
    names=("sunk_pages.dropped_in_decode", "sunk_pages.ignored"),
    when="sink and q_len == 1",
    conventions={**PAGED, "unused_entries": "numbers"},
)
def paged_decode_without_sink(
    q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array, *, sink: Array = None
) -> Array:
    out = np.zeros((*q.shape[:3], value_pages.shape[-1]), q.dtype)
    for b, n in enumerate(k_lens):
        k, v = (looked_up(x, table[b], n) for x in (key_pages, value_pages))
        seen = band(q.shape[1], n, causal=True)
        if sink is None or q.shape[1] == 1:
            out[b] = one_item(q[b], k, v, seen)
        else:
            queries, keys, values = (x.swapaxes(0, 1)[None] for x in (q[b], k, v))
            scores = scores_of(queries, keys, None)
            out[b] = sunk(scores, np.broadcast_to(seen, scores.shape), grouped(queries, values), sink)[0].swapaxes(0, 1)
    return out


@fault(
    "a pack in which each item has the sink of its number",
    "packed_attention",
    line="share",
    when="sink",
    conventions=PACKED,
)
def sink_by_item(
    q: Array, k: Array, v: Array, q_lens: Array, k_lens: Array, *, sink: Array = None, causal: bool = False
) -> Array:
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    i = j = 0
    for item, (a, b) in enumerate(zip(q_lens, k_lens, strict=True)):
        seen = band(a, b, causal=causal)
        if sink is None:
            out[i : i + a] = one_item(q[i : i + a], k[j : j + b], v[j : j + b], seen)
        else:
            queries, keys, values = (x.swapaxes(0, 1)[None] for x in (q[i : i + a], k[j : j + b], v[j : j + b]))
            scores = scores_of(queries, keys, None)
            one = np.full_like(sink, sink[item % len(sink)])
            found = sunk(scores, np.broadcast_to(seen, scores.shape), grouped(queries, values), one)
            out[i : i + a] = found[0].swapaxes(0, 1)
        i, j = i + a, j + b
    return out


# Masks


@fault(
    "a decode that hides what a mask shows",
    "attention",
    names=("attention.mask_flipped",),
    when="mask and q_len == 1",
    conventions=DENSE,
)
def mask_inverted_in_decode(q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False) -> Array:
    scores = scores_of(q, k, None)
    seen = np.broadcast_to(band(q.shape[2], k.shape[2], causal=causal), scores.shape)
    if mask is not None:
        seen = seen & (~mask if q.shape[2] == 1 else mask)
    return averaged(scores, seen, grouped(q, v))


@fault(
    "a mask of which one head is read",
    "attention",
    names=("grouped_query.mask_of_key_heads",),
    line="mask",
    when="mask and heads >= 2",
    conventions=DENSE,
)
def mask_of_the_first_head(q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False) -> Array:
    scores = scores_of(q, k, None)
    seen = np.broadcast_to(band(q.shape[2], k.shape[2], causal=causal), scores.shape)
    return averaged(scores, seen if mask is None else seen & mask[:, :1], grouped(q, v))


@fault(
    "a bias that is added where keys are masked alone",
    "attention",
    names=("attention.bias_ignored",),
    when="bias and not mask and not causal",
    conventions=DENSE,
)
def bias_beside_hidden_keys_alone(
    q: Array, k: Array, v: Array, *, mask: Array = None, bias: Array = None, causal: bool = False
) -> Array:
    scores = scores_of(q, k, None)
    seen = np.broadcast_to(band(q.shape[2], k.shape[2], causal=causal), scores.shape)
    seen = seen if mask is None else seen & mask
    if bias is not None and (causal or mask is not None):
        scores = scores + bias
    return averaged(scores, seen, grouped(q, v))


@fault(
    "queries of a long window counted from the first key",
    "packed_attention",
    line="distance",
    when="window_left is not None and causal",
    conventions=PACKED,
)
def packed_window_from_the_first_key(
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
        seen = band(a, b, causal=causal)
        if window_left is not None:
            seen &= np.arange(a)[:, None] + (0 if causal else b - a) - np.arange(b) <= window_left
        out[i : i + a] = one_item(q[i : i + a], k[j : j + b], v[j : j + b], seen)
        i, j = i + a, j + b
    return out
