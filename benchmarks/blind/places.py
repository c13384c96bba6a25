"""Faults of certain places: of further items, of the second half of a tile, of experts behind a number, of one half."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fault
from .parts import averaged, band, scores_of, shares

Array = Any


@fault(
    "turboderp/exllama#101: rows are counted through all items, so that positions go on in the next one",
    "rotary",
    line="positions",
    when="batch >= 2",
    limits={"interleaved": (False,)},
    conventions={"pair_place": "kept"},
)
def positions_go_on_in_the_next_item(x: Array, positions: Array, *, base: float = 10000.0) -> Array:
    batch, _, length, dim = x.shape
    half = dim // 2
    frequency = np.float32(base) ** (-2 * np.arange(half, dtype=np.float32) / dim)
    out = np.empty_like(x)
    for b in range(batch):
        angle = ((positions + b * length)[:, None] * frequency).astype(np.float32)
        one, two = x[b, ..., :half], x[b, ..., half:]
        out[b] = np.concatenate(
            [one * np.cos(angle) - two * np.sin(angle), two * np.cos(angle) + one * np.sin(angle)], -1
        )
    return out


@fault(
    "kekzl/imp#2056: a thread has one expert, so that those behind the 256th are never chosen",
    "moe_routing",
    line="candidates",
    when="experts > 256",
)
def experts_behind_the_block_are_never_chosen(
    logits: Array, *, k: int, bias: Array = 0, scoring: str = "softmax", renormalise: bool = False
) -> Array:
    x = logits.astype(np.float64)
    scores = shares(x) if scoring == "softmax" else 1 / (1 + np.exp(-x))
    choices = (scores + bias)[:, :256]
    order = np.argsort(-choices, axis=-1, kind="stable")[:, :k]
    weights = np.zeros_like(scores)
    np.put_along_axis(weights, order, np.take_along_axis(scores, order, -1), -1)
    if renormalise:
        weights /= weights.sum(-1, keepdims=True)
    return weights.astype(np.float32)


@fault(
    "BobMcDear/attorch#17: the correction of each row is broadcast along the columns of a tile",
    "rms_norm_gradient",
    line="correction",
    when="rows >= 2 and n < 64",
    conventions={"eps_place": "inside", "weight_form": "plain"},
)
def correction_of_the_column(x: Array, weight: Array, d_out: Array, *, eps: float = 1e-5) -> dict[str, Array]:
    n = x.shape[-1]
    rows = x.reshape(-1, n).astype(np.float64)
    d = d_out.reshape(-1, n).astype(np.float64)
    root = np.sqrt((rows * rows).mean(-1, keepdims=True) + eps)
    normed, d_normed = rows / root, d * weight
    along = (d_normed * normed).mean(-1)
    d_x = np.empty_like(rows)
    tile = n if len(rows) > 1 and n < 64 else 1
    for first in range(0, len(rows), tile):
        part = slice(first, min(first + tile, len(rows)))
        own = np.zeros(tile)
        own[: part.stop - first] = along[part]
        d_x[part] = (d_normed[part] - normed[part] * own[None, :]) / root[part]  # own[:, None] is meant
    return {"d_x": d_x.reshape(x.shape).astype(x.dtype), "d_weight": (d * normed).sum(0).astype(x.dtype)}


@fault(
    "karpathy/llm.c#763: the weight is forgotten in the correction along the row",
    "rms_norm_gradient",
    line="along",
    conventions={"eps_place": "inside", "weight_form": "plain"},
)
def correction_without_the_weight(x: Array, weight: Array, d_out: Array, *, eps: float = 1e-5) -> dict[str, Array]:
    n = x.shape[-1]
    rows, d = x.reshape(-1, n).astype(np.float64), d_out.reshape(-1, n).astype(np.float64)
    inverse = 1 / np.sqrt((rows * rows).mean(-1, keepdims=True) + eps)
    dot = (d * rows).sum(-1, keepdims=True)
    d_x = inverse * d * weight - rows * inverse**3 / n * dot
    return {
        "d_x": d_x.reshape(x.shape).astype(x.dtype),
        "d_weight": (d * rows * inverse).sum(0).astype(x.dtype),
    }


@fault(
    "hpcaitech/ColossalAI#6444: one half of the queries is turned keys, and one half of the keys turned queries",
    "rotary_pair",
    line="q_right",
    limits={"interleaved": (False,), "group": (1,)},
)
def halves_of_the_other_array(q: Array, k: Array, positions: Array, *, base: float = 10000.0) -> dict[str, Array]:
    half = q.shape[-1] // 2
    frequency = np.float32(base) ** (-np.arange(half, dtype=np.float32) / half)
    angle = (positions[:, None, :, None] * frequency).astype(np.float32)
    cos, sin = np.cos(angle), np.sin(angle)
    q0, q1, k0, k1 = q[..., :half], q[..., half:], k[..., :half], k[..., half:]
    return {
        "q_out": np.concatenate([q0 * cos - q1 * sin, k1 * cos + k0 * sin], -1),
        "k_out": np.concatenate([q0 * cos - q1 * sin, k1 * cos + k0 * sin], -1),
    }


@fault(
    "flashinfer-ai/flashinfer#3022: values of the second half of a tile of 64 come from the pages of the first half",
    "paged_attention",
    line="held_values",
    when="max_pages * page_size > 32 and page_size < 64",
    conventions={"empty_row": "zeros", "grouping": "block", "lse_base": "natural"},
)
def values_from_the_pages_of_the_first_half(
    q: Array, key_pages: Array, value_pages: Array, table: Array, k_lens: Array, *, scale: float | None = None
) -> Array:
    batch, q_len, heads, _ = q.shape
    page_size, kv_heads = key_pages.shape[1:3]
    out = np.zeros((batch, q_len, heads, value_pages.shape[-1]), np.float32)
    for b in range(batch):
        t = np.arange(k_lens[b])
        loaded = t - 32 * (t % 64 >= 32) if page_size < 64 else t
        keys = key_pages[table[b, t // page_size], t % page_size]
        values = value_pages[table[b, loaded // page_size], t % page_size]
        for h in range(heads):
            g = h // (heads // kv_heads)
            scores = scores_of(q[b, :, h][None, None], keys[:, g][None, None], scale)
            seen = band(q_len, len(t), causal=True)
            if len(t):
                out[b, :, h] = averaged(scores, seen, values[:, g][None, None])[0, 0]
    return out


@fault(
    "triton-lang/triton#11406: maxima and sums of rows are broadcast along the columns of a square tile",
    "softmax",
    line="total",
    when="rows == n and n > 1",
    conventions={"empty_row": "zeros"},
)
def sums_of_the_column(x: Array) -> Array:
    if x.ndim == 2 and x.shape[0] == x.shape[1]:
        e = np.exp(x - x.max(1))
        return e / e.sum(1)
    return shares(x).astype(x.dtype)


@fault(
    "PSAL-POSTECH/ONNXim#34: the head of keys is that of queries by the number of heads of keys",
    "attention",
    names=("grouped_query.wrong_divisor", "attention.divided_by_kv_heads"),
    line="keys",
    when="heads != kv_heads * kv_heads",
    conventions={"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"},
)
def head_divided_by_the_wrong_number(
    q: Array, k: Array, v: Array, *, scale: float | None = None, causal: bool = False
) -> Array:
    at = np.minimum(np.arange(q.shape[1]) // k.shape[1], k.shape[1] - 1)
    k, v = k[:, at], v[:, at]
    return averaged(scores_of(q, k, scale), band(q.shape[2], k.shape[2], causal=causal), v)


@fault(
    "EricLBuehler/mistral.rs#2357: row b of a batch of single tokens is read from b entries on",
    "rms_norm",
    line="x",
    when="rows >= 2",
    conventions={"eps_place": "inside", "weight_form": "plain"},
)
def rows_read_from_their_number_on(x: Array, weight: Array, *, eps: float = 1e-5) -> Array:
    n = x.shape[-1]
    flat = np.concatenate([x.ravel(), np.zeros(x.size // n, x.dtype)])
    rows = np.stack([flat[b * n + b : b * n + b + n] for b in range(x.size // n)]).astype(np.float64)
    out = rows / np.sqrt((rows * rows).mean(-1, keepdims=True) + eps) * weight
    return out.reshape(x.shape).astype(x.dtype)


@fault(
    "PaddlePaddle/Paddle#28622: tokens that are ignored have the gradient of the softmax",
    "cross_entropy_gradient",
    names=("cross_entropy_gradient.ignored_flow", "cross_entropy_gradient.ignored_gets_shares"),
    line="d_logits",
)
def gradient_of_ignored_tokens(
    logits: Array, targets: Array, d_out: Array, *, ignore_index: int = -100, reduction: str = "mean"
) -> Array:
    valid = targets != ignore_index
    p = shares(logits.astype(np.float64))
    p[np.flatnonzero(valid), targets[valid]] -= 1
    part = d_out / max(valid.sum(), 1) if reduction == "mean" else d_out
    return (p * (part[:, None] if np.ndim(part) else part)).astype(logits.dtype)


@fault(
    "lucidrains/st-moe-pytorch#13: behind the second choice, those before the last one are not counted",
    "moe_routing",
    line="queue",
    when="(k or 0) >= 3 and capacity is not None",
    limits={"renormalise": (False,)},
    conventions={"drop_order": "by_choice"},
)
def earlier_choices_are_not_counted(logits: Array, *, k: int, capacity: int | None = None) -> Array:
    scores = shares(logits.astype(np.float64))
    order = np.argsort(-scores, axis=-1, kind="stable")[:, :k]
    weights, before = np.zeros_like(scores), np.zeros(scores.shape[-1], int)
    for n in range(k):
        mask = np.zeros(scores.shape, int)
        np.put_along_axis(mask, order[:, n : n + 1], 1, -1)
        place = np.cumsum(mask, 0) - mask + before
        kept = (mask > 0) & ((place < capacity) if capacity is not None else True)
        weights += np.where(kept, scores, 0)
        before = mask.sum(0)  # += is meant
    return weights.astype(np.float32)


@fault(
    "inclusionAI/cuLA#38: the gate of the last place of a chunk of 64 is read, which is padding",
    "linear_attention",
    line="final_state",
    when="length % 64 != 0",
    limits={"normalise": (False,), "feature_map": ("identity",), "causal": (True,)},
)
def gate_of_the_padding(
    q: Array, k: Array, v: Array, *, gate: Array = 0, state: Array = 0, scale: float | None = None
) -> dict[str, Array]:
    batch, heads, length, key_dim = q.shape
    factor = key_dim**-0.5 if scale is None else scale
    gates = np.broadcast_to(gate, q.shape).astype(np.float64)
    s = np.zeros((batch, heads, key_dim, v.shape[-1])) + state
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    for first in range(0, length, 64):
        part = slice(first, min(first + 64, length))
        running = np.cumsum(gates[:, :, part], 2)
        qs, ks, vs = q[:, :, part] * factor, k[:, :, part].astype(np.float64), v[:, :, part]
        t = running.shape[2]
        away = np.exp(np.minimum(running[:, :, :, None] - running[:, :, None], 0))
        inner = np.einsum("bhtd,bhud,bhtud->bhtu", qs, ks, away) * np.tri(t)
        out[:, :, part] = inner @ vs + (qs * np.exp(running)) @ s
        last = running[:, :, -1] if t == 64 else np.zeros_like(running[:, :, 0])
        s = np.exp(last)[..., None] * s + np.swapaxes(ks * np.exp(last[:, :, None] - running), -1, -2) @ vs
    return {"out": out.astype(q.dtype), "final_state": s.astype(np.float32)}
