"""Layers with weights, and attention with dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fault
from .parts import band, shares

Array = Any
BOTTOM = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


def attended(q: Array, k: Array, v: Array, causal: bool, mask: Array = None) -> Array:
    s = q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5)
    seen = band(q.shape[-2], k.shape[-2], causal=causal)
    seen = seen if mask is None else seen & mask
    return shares(np.where(seen, s, -np.inf)) @ v


@fault(
    "reczoo/FuxiCTR#30",
    "multi_head",
    names=("multi_head.split_without_moving",),
    when="heads >= 2",
    conventions=BOTTOM,
)
def split_by_view(
    x: Array, context: Array, wq: Array, wk: Array, wv: Array, wo: Array, *, heads: int, causal: bool = False
) -> Array:
    batch, n, _ = x.shape
    m, width = context.shape[1], wq.shape[1]
    q = (x @ wq).reshape(batch, heads, n, width // heads)
    k, v = ((context @ w).reshape(batch, m, heads, -1).transpose(0, 2, 1, 3) for w in (wk, wv))
    out = attended(q, k, v, causal)
    return out.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ wo


@fault(
    "jsbaan/transformer-from-scratch#6",
    "multi_head",
    names=("multi_head.joined_without_moving",),
    when="heads >= 2 and q_len >= 2",
    conventions=BOTTOM,
)
def merged_by_view(
    x: Array, context: Array, wq: Array, wk: Array, wv: Array, wo: Array, *, heads: int, causal: bool = False
) -> Array:
    batch, n, _ = x.shape
    q = (x @ wq).reshape(batch, n, heads, -1).transpose(0, 2, 1, 3)
    k, v = ((context @ w).reshape(batch, context.shape[1], heads, -1).transpose(0, 2, 1, 3) for w in (wk, wv))
    return attended(q, k, v, causal).reshape(batch, n, -1) @ wo


@fault(
    "gazelle93/Transformer-Various-Positional-Encoding#1",
    "multi_head",
    names=("multi_head.heads_before_batch",),
    when="heads >= 2 and batch >= 2",
    conventions=BOTTOM,
)
def heads_taken_for_items(x: Array, context: Array, wq: Array, wk: Array, wv: Array, wo: Array, *, heads: int) -> Array:
    batch, n, _ = x.shape

    def split(y: Array) -> Array:  # [heads * batch, n, channels], heads first
        return np.concatenate(np.split(y, heads, axis=-1), axis=0)

    out = attended(split(x @ wq), split(context @ wk), split(context @ wv), False)
    out = out.reshape(batch, heads, n, -1).transpose(0, 2, 1, 3).reshape(batch, n, -1)
    return out @ wo


@fault(
    "keras-team/keras#23040",
    "multi_head",
    names=("multi_head.causal_replaced_by_mask",),
    when="mask and causal",
    conventions=BOTTOM,
)
def padding_or_causal(
    x: Array,
    context: Array,
    wq: Array,
    wk: Array,
    wv: Array,
    wo: Array,
    *,
    heads: int,
    causal: bool = False,
    mask: Array = None,
) -> Array:
    batch, n, _ = x.shape
    q = (x @ wq).reshape(batch, n, heads, -1).transpose(0, 2, 1, 3)
    k, v = ((context @ w).reshape(batch, context.shape[1], heads, -1).transpose(0, 2, 1, 3) for w in (wk, wv))
    out = attended(q, k, v, causal and mask is None, mask)
    return out.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ wo


@fault(
    "pytorch/pytorch, the fast path without biases",
    "multi_head",
    names=("multi_head.no_query_bias",),
    when="bq and not mask",
    conventions=BOTTOM,
)
def fast_path_without_query_bias(
    x: Array,
    context: Array,
    wq: Array,
    wk: Array,
    wv: Array,
    wo: Array,
    *,
    heads: int,
    mask: Array = None,
    bq: Array = None,
) -> Array:
    batch, n, _ = x.shape
    q = x @ wq
    if bq is not None and mask is not None:
        q = q + bq
    q = q.reshape(batch, n, heads, -1).transpose(0, 2, 1, 3)
    k, v = ((context @ w).reshape(batch, context.shape[1], heads, -1).transpose(0, 2, 1, 3) for w in (wk, wv))
    out = attended(q, k, v, False, mask)
    return out.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ wo


@fault(
    "keras-team/keras#23038, with dropout",
    "attention",
    names=("attention_dropout.mask_lost",),
    when="causal and dropout_p",
    conventions=BOTTOM,
)
def causal_lost_with_dropout(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    dropout_p: float = 0.0,
    seed: int | None = None,
) -> Array:
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
    if not dropout_p:
        return attended(q, k, v, causal).astype(q.dtype)
    w = shares(q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5))
    kept = np.random.default_rng(seed).random(w.shape) >= dropout_p
    return (np.where(kept, w / np.float32(1 - dropout_p), 0) @ v).astype(q.dtype)


@fault(
    "NVIDIA/TransformerEngine#227",
    "attention",
    names=("attention_dropout.shared_by_queries",),
    when="dropout_p",
    conventions=BOTTOM,
)
def dropout_shared_by_queries(
    q: Array, k: Array, v: Array, *, dropout_p: float = 0.0, seed: int | None = None
) -> Array:
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
    w = shares(q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5))
    if dropout_p:
        kept = np.random.default_rng(seed).random((*w.shape[:2], 1, w.shape[3])) >= dropout_p
        w = np.where(kept, w / np.float32(1 - dropout_p), 0)
    return (w @ v).astype(q.dtype)


@fault("linkedin/Liger-Kernel, gate and up", "swiglu", names=("swiglu.gate_and_up_exchanged",), when="")
def gate_on_the_other_product(x: Array, w_gate: Array, w_up: Array, w_down: Array) -> Array:
    up = x @ w_up
    return (x @ w_gate) * (up / (1 + np.exp(-up))) @ w_down


@fault("lucidrains/linformer, exchanged projections", "linformer", names=("linformer.exchanged_matrices",), when="")
def projections_exchanged(q: Array, k: Array, v: Array, e: Array, f: Array) -> Array:
    keys, values = np.einsum("pn,bhnd->bhpd", f, k), np.einsum("pn,bhnd->bhpd", e, v)
    return (shares(q @ np.swapaxes(keys, -1, -2) * np.float32(q.shape[-1] ** -0.5)) @ values).astype(q.dtype)


@fault(
    "huggingface/transformers#26624",
    "beam_search",
    names=("beam_search.length_counts_start",),
    when="",
)
def divided_by_all_tokens(log_probs: Array, *, start: int, width: int, length: int) -> tuple[Array, Array]:
    beams = [((start,), 0.0)]
    for _ in range(length):
        grown = [
            ((*tokens, t), score + float(log_probs[tokens[-1], t]))
            for tokens, score in beams
            for t in range(log_probs.shape[1])
        ]
        beams = sorted(grown, key=lambda beam: -beam[1])[:width]
    while len(beams) < width:
        beams.append(((start, *[0] * length), -np.inf))
    tokens = np.array([beam[0][1:] for beam in beams], np.int64).reshape(len(beams), length)
    return tokens, np.array([beam[1] / (length + 1) for beam in beams], log_probs.dtype)
