"""Backward passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fault
from .parts import band, grouped, shares

Array = Any
BOTTOM = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


def summed(x: Array, kv_heads: int) -> Array:
    """The gradients of query heads added up over each group."""
    batch, heads, n, d = x.shape
    return x.reshape(batch, kv_heads, heads // kv_heads, n, d).sum(2)


def backward(q: Array, k: Array, v: Array, d_out: Array, w: Array, factor: float) -> tuple[Array, Array, Array]:
    """The gradients of queries, and of keys and values for each query head, from the weights."""
    d_v = np.swapaxes(w, -1, -2) @ d_out
    d_w = d_out @ np.swapaxes(v, -1, -2)
    d_s = w * (d_w - (d_w * w).sum(-1, keepdims=True)) * np.float32(factor)
    return d_s @ k, np.swapaxes(d_s, -1, -2) @ q, d_v


@fault(
    "marin-community/levanter, flash backward",
    "attention_gradient",
    names=("attention_gradient.first_of_group",),
    when="kv_heads < heads",
    conventions=BOTTOM,
)
def gradient_of_one_query_head(
    q: Array, k: Array, v: Array, d_out: Array, *, causal: bool = False
) -> tuple[Array, Array, Array]:
    keys, values, step = grouped(q, k), grouped(q, v), q.shape[1] // k.shape[1]
    s = q @ np.swapaxes(keys, -1, -2) * np.float32(q.shape[-1] ** -0.5)
    w = shares(np.where(band(q.shape[2], k.shape[2], causal=causal), s, -np.inf))
    d_q, d_k, d_v = backward(q, keys, values, d_out, w, q.shape[-1] ** -0.5)
    return d_q, d_k[:, ::step], d_v[:, ::step]


@fault(
    "Dao-AILab/flash-attention#355",
    "attention_gradient",
    names=("fault:cotangent_taken_for_contiguous",),
    when="d_out_scattered",
    conventions=BOTTOM,
)
def cotangent_read_densely(q: Array, k: Array, v: Array, d_out: Array) -> tuple[Array, Array, Array]:
    if not d_out.flags.c_contiguous:
        base = d_out.base if d_out.base is not None else d_out
        d_out = np.resize(np.ascontiguousarray(base).ravel(), d_out.size).reshape(d_out.shape)
    keys, values, n = grouped(q, k), grouped(q, v), k.shape[1]
    w = shares(q @ np.swapaxes(keys, -1, -2) * np.float32(q.shape[-1] ** -0.5))
    d_q, d_k, d_v = backward(q, keys, values, d_out, w, q.shape[-1] ** -0.5)
    return d_q, summed(d_k, n), summed(d_v, n)


@fault(
    "meta-pytorch/MSLK#263",
    "attention_gradient",
    names=("attention_gradient.window_lost",),
    when="window_left is not None",
    conventions=BOTTOM,
)
def window_forward_alone(
    q: Array, k: Array, v: Array, d_out: Array, *, causal: bool = False, window_left: int | None = None
) -> tuple[Array, Array, Array]:
    keys, values, n = grouped(q, k), grouped(q, v), k.shape[1]
    factor = q.shape[-1] ** -0.5
    s = q @ np.swapaxes(keys, -1, -2) * np.float32(factor)
    w = shares(np.where(band(q.shape[2], k.shape[2], causal=causal), s, -np.inf))
    d_q, d_k, d_v = backward(q, keys, values, d_out, w, factor)
    return d_q, summed(d_k, n), summed(d_v, n)


@fault(
    "xlite-dev/ffpa-attn#300",
    "attention_gradient",
    names=("attention_gradient.causal_from_the_first_key", "causal_alignment = top_left"),
    when="causal and q_len != k_len",
    conventions=BOTTOM,
)
def backward_from_the_first_key(
    q: Array, k: Array, v: Array, d_out: Array, *, causal: bool = False, scale: float | None = None
) -> tuple[Array, Array, Array]:
    keys, values, n = grouped(q, k), grouped(q, v), k.shape[1]
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    s = q @ np.swapaxes(keys, -1, -2) * np.float32(factor)
    seen = np.tril(np.ones(s.shape[-2:], bool)) if causal else np.ones(s.shape[-2:], bool)
    d_q, d_k, d_v = backward(q, keys, values, d_out, shares(np.where(seen, s, -np.inf)), factor)
    return d_q, summed(d_k, n), summed(d_v, n)


@fault(
    "tenstorrent/tt-metal#53216",
    "attention_gradient",
    names=("attention_gradient.scaled_twice",),
    when="head_dim > 1",
    conventions=BOTTOM,
)
def keys_scaled_again(
    q: Array, k: Array, v: Array, d_out: Array, *, scale: float | None = None
) -> tuple[Array, Array, Array]:
    factor = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    keys, values, n = grouped(q, k) * factor, grouped(q, v), k.shape[1]
    w = shares(q @ np.swapaxes(keys, -1, -2))
    d_v = np.swapaxes(w, -1, -2) @ d_out
    d_w = d_out @ np.swapaxes(values, -1, -2)
    d_s = w * (d_w - (d_w * w).sum(-1, keepdims=True)) * factor
    return d_s @ keys, summed(np.swapaxes(d_s, -1, -2) @ (q * factor), n), summed(d_v, n)


@fault(
    "a backward pass with the maximum left out",
    "attention_gradient",
    names=("attention_gradient.weights_without_maximum",),
    when="",
    conventions=BOTTOM,
)
def weights_again_without_maximum(
    q: Array, k: Array, v: Array, d_out: Array, *, causal: bool = False
) -> tuple[Array, Array, Array]:
    keys, values, n = grouped(q, k), grouped(q, v), k.shape[1]
    factor = q.shape[-1] ** -0.5
    with np.errstate(all="ignore"):
        e = np.exp(q @ np.swapaxes(keys, -1, -2) * np.float32(factor))
        e = np.where(band(q.shape[2], k.shape[2], causal=causal), e, 0)
        total = e.sum(-1, keepdims=True)
        w = np.where(total > 0, e / total, 0)
        d_q, d_k, d_v = backward(q, keys, values, d_out, w, factor)
    return d_q, summed(d_k, n), summed(d_v, n)


@fault(
    "pytorch/pytorch#196678, of the row product",
    "attention_gradient",
    names=("attention_gradient.no_row_product",),
    when="mask",
    conventions=BOTTOM,
)
def row_product_lost_with_a_mask(
    q: Array, k: Array, v: Array, d_out: Array, *, mask: Array = None
) -> tuple[Array, Array, Array]:
    keys, values, n = grouped(q, k), grouped(q, v), k.shape[1]
    factor = np.float32(q.shape[-1] ** -0.5)
    s = q @ np.swapaxes(keys, -1, -2) * factor
    w = shares(s if mask is None else np.where(mask, s, -np.inf))
    d_w = d_out @ np.swapaxes(values, -1, -2)
    row = (d_w * w).sum(-1, keepdims=True) if mask is None else np.float32(0)
    d_s = w * (d_w - row) * factor
    return d_s @ keys, summed(np.swapaxes(d_s, -1, -2) @ q, n), summed(np.swapaxes(w, -1, -2) @ d_out, n)


@fault(
    "a bias that is broadcast over the batch, of which the first item alone is summed",
    "attention_gradient",
    names=("attention_gradient.bias_of_first_item",),
    when="bias and batch >= 2",
    conventions=BOTTOM,
)
def bias_gradient_of_first_item(
    q: Array, k: Array, v: Array, d_out: Array, *, bias: Array = None
) -> tuple[Array, Array, Array, Array]:
    keys, values, n = grouped(q, k), grouped(q, v), k.shape[1]
    factor = np.float32(q.shape[-1] ** -0.5)
    s = q @ np.swapaxes(keys, -1, -2) * factor
    w = shares(s if bias is None else s + bias)
    d_w = d_out @ np.swapaxes(values, -1, -2)
    d_s = w * (d_w - (d_w * w).sum(-1, keepdims=True))
    d_q, d_k = d_s @ keys * factor, np.swapaxes(d_s, -1, -2) @ q * factor
    d_bias = np.zeros((), q.dtype)
    if bias is not None:
        whole = (1,) * (4 - bias.ndim) + bias.shape
        part = d_s
        for axis in (3, 2, 1):
            part = part.sum(axis, keepdims=True) if whole[axis] == 1 and d_s.shape[axis] != 1 else part
        part = part[:1] if whole[0] == 1 else part
        d_bias = part.reshape(bias.shape)
    return d_q, summed(d_k, n), summed(np.swapaxes(w, -1, -2) @ d_out, n), d_bias


@fault(
    "HomericIntelligence/Odyssey#2134",
    "softmax_gradient",
    names=("softmax_gradient.sum_missing", "softmax_gradient.diagonal_alone"),
    when="",
)
def shares_times_cotangent(x: Array, d_out: Array) -> Array:
    return (shares(x) * d_out).astype(x.dtype)


@fault(
    "pytorch/pytorch#18233",
    "layer_norm_gradient",
    names=("layer_norm_gradient.share_weighted",),
    when="",
    conventions={"eps_place": "inside", "variance": "biased"},
)
def weight_gradient_of_the_result(
    x: Array, weight: Array, d_out: Array, *, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    centred = x - x.mean(-1, keepdims=True)
    root = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(eps))
    normed, g = centred / root, d_out * weight
    d_x = (g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)) / root
    return d_x, (d_out * normed * weight).sum(0), d_out.sum(0)


@fault(
    "an RMSNorm whose root is taken for a constant",
    "rms_norm_gradient",
    names=("rms_norm_gradient.root_held_fixed", "rms_norm_gradient.statistics_held_fixed"),
    when="",
    conventions={"eps_place": "inside", "weight_form": "plain"},
)
def root_held_fixed(x: Array, weight: Array, d_out: Array, *, eps: float = 1e-5) -> tuple[Array, Array]:
    root = np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))
    return d_out * weight / root, (d_out * x / root).sum(0)
