"""Attention over whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fault
from .parts import averaged, band, grouped, scores_of, shares

Array = Any
BOTTOM = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


@fault("tenstorrent/tt-metal#56789", "attention", names=("attention.head_count_scale",), when="heads != head_dim")
def scale_of_head_count(q: Array, k: Array, v: Array, *, causal: bool = False) -> Array:
    heads, q_len, k_len = q.shape[1], q.shape[2], k.shape[2]
    out = np.empty((*q.shape[:3], v.shape[-1]), q.dtype)
    for b in range(len(q)):
        for h in range(heads):
            g = h * k.shape[1] // heads
            s = (q[b, h] @ k[b, g].T) / np.float32(heads**0.5)
            out[b, h] = averaged(s, band(q_len, k_len, causal=causal), v[b, g])
    return out


@fault("Project-MONAI/GenerativeModels#146", "attention", names=("attention.no_scale",), when="q_len != k_len")
def cross_attention_unscaled(q: Array, k: Array, v: Array, *, mask: Array = None) -> Array:
    s = q @ np.swapaxes(grouped(q, k), -1, -2)
    if q.shape[2] == k.shape[2]:  # self-attention has its own path
        s = s * np.float32(q.shape[-1] ** -0.5)
    return averaged(s, True if mask is None else mask, grouped(q, v))


@fault("tenstorrent/tt-metal#42891", "attention", names=("attention.bias_scaled", "alibi.scaled_bias"), when="bias")
def bias_before_scale(
    q: Array, k: Array, v: Array, *, bias: Array = None, mask: Array = None, scale: float | None = None
) -> Array:
    s = q @ np.swapaxes(grouped(q, k), -1, -2)
    if bias is not None:
        s = s + bias
    s = s * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    return averaged(s, True if mask is None else mask, grouped(q, v))


@fault(
    "pytorch/pytorch#108108",
    "attention",
    names=("causal_mask.first_row_in_decode",),
    when="causal and q_len == 1",
    conventions=BOTTOM,
)
def decode_sees_first_key(q: Array, k: Array, v: Array, *, causal: bool = False, scale: float | None = None) -> Array:
    q_len, k_len = q.shape[2], k.shape[2]
    seen = np.tril(np.ones((1, k_len), bool)) if q_len == 1 and causal else band(q_len, k_len, causal=causal)
    return averaged(scores_of(q, k, scale), seen, grouped(q, v))


@fault(
    "unslothai/unsloth-zoo#963",
    "attention",
    names=("causal_mask.replaced_by_mask",),
    when="mask and causal",
    conventions=BOTTOM,
)
def padding_replaces_causal(
    q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False, scale: float | None = None
) -> Array:
    q_len, k_len = q.shape[2], k.shape[2]
    if mask is not None:
        seen = mask
    elif causal:
        seen = np.tril(np.ones((q_len, k_len), bool), k_len - q_len)
    else:
        seen = np.ones((q_len, k_len), bool)
    return averaged(scores_of(q, k, scale), seen, grouped(q, v))


@fault(
    "pacman100/LLM-Workshop#1",
    "attention",
    names=("causal_mask.replaces_mask", "attention.mask_ignored"),
    when="mask and causal",
    conventions=BOTTOM,
)
def causal_path_drops_padding(
    q: Array, k: Array, v: Array, *, mask: Array = None, bias: Array = None, causal: bool = False
) -> Array:
    s = scores_of(q, k, None)
    if bias is not None:
        s = s + bias
    if causal:  # the fast path takes no mask
        return averaged(s, band(q.shape[2], k.shape[2], causal=True), grouped(q, v))
    return averaged(s, True if mask is None else mask, grouped(q, v))


@fault(
    "keras-team/keras#23038",
    "attention",
    names=("causal_mask.ignored",),
    when="causal and not mask",
    conventions=BOTTOM,
)
def causal_only_beside_mask(q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False) -> Array:
    s = scores_of(q, k, None)
    if mask is not None:
        seen = mask & band(q.shape[2], k.shape[2], causal=causal)
        s = np.where(seen, s, -np.inf)
    return (shares(s) @ grouped(q, v)).astype(q.dtype)


@fault(
    "microsoft/onnxruntime#25927",
    "attention",
    names=("sliding_window.exclusive",),
    when="window_left is not None",
    conventions=BOTTOM,
)
def window_counts_the_query(
    q: Array, k: Array, v: Array, *, causal: bool = False, window_left: int | None = None
) -> Array:
    q_len, k_len = q.shape[2], k.shape[2]
    seen = band(q_len, k_len, causal=causal)
    if window_left is not None:
        behind = np.arange(q_len)[:, None] + (k_len - q_len) - np.arange(k_len)
        seen &= behind < window_left
    return averaged(scores_of(q, k, None), seen, grouped(q, v))


@fault(
    "jax cuDNN path of dot_product_attention",
    "attention",
    names=("sliding_window.right_lost",),
    when="window_right is not None and not causal",
    conventions=BOTTOM,
)
def left_bound_alone_forwarded(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Array:
    right = window_right if causal else None
    seen = band(q.shape[2], k.shape[2], causal=causal, left=window_left, right=right)
    return averaged(scores_of(q, k, None), seen, grouped(q, v))


@fault(
    "rajveer43/VeloxQuant-MLX#463",
    "attention",
    names=("sliding_window.not_in_decode",),
    when="q_len == 1 and window_left is not None",
    conventions=BOTTOM,
)
def no_window_in_decode(q: Array, k: Array, v: Array, *, causal: bool = False, window_left: int | None = None) -> Array:
    def make_mask() -> Array:
        if q.shape[2] == 1:
            return None
        return band(q.shape[2], k.shape[2], causal=causal, left=window_left)

    seen = make_mask()
    return averaged(scores_of(q, k, None), True if seen is None else seen, grouped(q, v))


@fault(
    "a window short by one in decode alone",
    "attention",
    names=("sliding_window.exclusive",),
    when="q_len == 1 and window_left is not None",
    conventions=BOTTOM,
)
def decode_window_short(q: Array, k: Array, v: Array, *, causal: bool = False, window_left: int | None = None) -> Array:
    q_len, k_len = q.shape[2], k.shape[2]
    if q_len == 1 and window_left is not None:
        start = max(k_len - window_left, 0)
        k, v, k_len = k[:, :, start:], v[:, :, start:], k_len - start
        return averaged(scores_of(q, k, None), np.ones((1, k_len), bool), grouped(q, v))
    seen = band(q_len, k_len, causal=causal, left=window_left)
    return averaged(scores_of(q, k, None), seen, grouped(q, v))


@fault(
    "microsoft/onnxruntime#28958",
    "attention",
    names=("empty_row = mean_value",),
    when="",
    conventions={**BOTTOM, "masked_nonfinite": "propagates"},
)
def sentinel_makes_rows_uniform(q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False) -> Array:
    seen = band(q.shape[2], k.shape[2], causal=causal)
    if mask is not None:
        seen = seen & mask
    s = np.where(seen, scores_of(q, k, None), np.finfo(np.float32).min)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ grouped(q, v)).astype(q.dtype)


@fault(
    "ONNX Runtime's Attention, masks of -10000 each",
    "attention",
    names=("fault:lowest_number_added_twice", "fault:hidden_once_for_each_mask", "fault:large_number_taken_off"),
    line="scores",
    when="",
    conventions=BOTTOM,
)
def masks_add_up(q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False) -> Array:
    s = scores_of(q, k, None)
    if causal:
        s = s + np.where(band(q.shape[2], k.shape[2], causal=True), 0, np.float32(-10000))
    if mask is not None:
        s = s + np.where(mask, 0, np.float32(-10000))
    return (shares(s) @ grouped(q, v)).astype(q.dtype)


@fault(
    "pytorch/pytorch#101967",
    "attention",
    names=("masked_nonfinite = propagates",),
    when="",
    conventions={**BOTTOM, "masked_nonfinite": "ignored"},
)
def nan_behind_the_mask(q: Array, k: Array, v: Array, *, mask: Array = None) -> Array:
    s = scores_of(q, k, None)
    if mask is not None:
        s = s + np.where(mask, np.float32(0), -np.inf)
    return (shares(s) @ grouped(q, v)).astype(q.dtype)


def online(
    q: Array, k: Array, v: Array, seen: Array, scale: float | None, tile: int, start: float = -np.inf
) -> tuple[Array, Array]:
    """The running sums of a tiled softmax, [heads, q_len, value_dim], and the logsumexp, of one item."""
    factor = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    top = np.full((*q.shape[:2], 1), start, np.float32)
    total, out = np.zeros_like(top), np.zeros((*q.shape[:2], v.shape[-1]), np.float32)
    for a in range(0, k.shape[1], tile):
        s = np.where(seen[..., a : a + tile], q @ np.swapaxes(k[:, a : a + tile], -1, -2) * factor, -np.inf)
        new = np.maximum(top, s.max(-1, keepdims=True))
        base = np.where(np.isfinite(new), new, 0)
        p, shrink = np.exp(s - base), np.exp(np.where(np.isfinite(top), top, -np.inf) - base)
        total = total * shrink + p.sum(-1, keepdims=True)
        out = out * shrink + p @ v[:, a : a + tile]
        top = new
    with np.errstate(all="ignore"):
        lse = np.where(total > 0, np.log(total) + top, -np.inf)
    return out / np.where(total > 0, total, 1), lse


@fault("flashinfer FA2 prefill", "attention", names=("attention.floored_maximum",), when="", conventions=BOTTOM)
def maximum_starts_finite(
    q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False, scale: float | None = None
) -> Array:
    k, v = grouped(q, k), grouped(q, v)
    seen = np.broadcast_to(
        band(q.shape[2], k.shape[2], causal=causal) & (True if mask is None else mask),
        (*q.shape[:3], k.shape[2]),
    )
    found = [online(q[b], k[b], v[b], seen[b], scale, 32, start=-5e4)[0] for b in range(len(q))]
    return np.stack(found).astype(q.dtype) if found else np.zeros((0, *q.shape[1:3], v.shape[-1]), q.dtype)


@fault(
    "Dao-AILab/flash-attention#2082",
    "attention",
    names=("fault:zero_kept_for_a_hidden_tile",),
    when="",
    conventions=BOTTOM,
)
def safe_maximum_kept(
    q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False, scale: float | None = None
) -> Array:
    k, v = grouped(q, k), grouped(q, v)
    seen = np.broadcast_to(
        band(q.shape[2], k.shape[2], causal=causal) & (True if mask is None else mask),
        (*q.shape[:3], k.shape[2]),
    )
    factor = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    top = np.full((*q.shape[:3], 1), -np.inf, np.float32)
    total, out = np.zeros_like(top), np.zeros((*q.shape[:3], v.shape[-1]), np.float32)
    for a in range(0, k.shape[2], 64):
        s = q @ np.swapaxes(k[:, :, a : a + 64], -1, -2) * factor
        s = np.where(seen[..., a : a + 64], s, -np.inf)
        new = np.maximum(top, s.max(-1, keepdims=True))
        new = np.where(np.isinf(new), np.float32(0), new)
        p, shrink = np.exp(s - new), np.exp(top - new)
        total = total * shrink + p.sum(-1, keepdims=True)
        out = out * shrink + p @ v[:, :, a : a + 64]
        top = new
    return (out / np.where(total > 0, total, 1)).astype(q.dtype)


@fault(
    "tile-ai/tilelang#1148",
    "attention",
    names=("fault:maximum_of_one_tile", "attention.maximum_of_last_tile"),
    when="k_len > 32",
    conventions=BOTTOM,
)
def tile_maximum_replaces(q: Array, k: Array, v: Array, *, scale: float | None = None) -> Array:
    k, v = grouped(q, k), grouped(q, v)
    factor = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    top = np.full((*q.shape[:3], 1), -np.inf, np.float32)
    total, out = np.zeros_like(top), np.zeros((*q.shape[:3], v.shape[-1]), np.float32)
    for a in range(0, k.shape[2], 32):
        s = q @ np.swapaxes(k[:, :, a : a + 32], -1, -2) * factor
        new = s.max(-1, keepdims=True)
        p, shrink = np.exp(s - new), np.exp(top - new)
        total = total * shrink + p.sum(-1, keepdims=True)
        out = out * shrink + p @ v[:, :, a : a + 32]
        top = new
    return (out / total).astype(q.dtype)


@fault("mlverse/torch#1208", "attention", names=("attention.mask_added", "padding_mask.added_flags"), when="mask")
def flags_added(q: Array, k: Array, v: Array, *, mask: Array = None) -> Array:
    s = scores_of(q, k, None)
    if mask is not None:
        s = s + mask.astype(np.float32)
    return (shares(s) @ grouped(q, v)).astype(q.dtype)


@fault(
    "lsdefine/attention-is-all-you-need-keras#16",
    "attention",
    names=("padding_mask.queries_hidden", "fault:mask_of_keys_on_queries"),
    line="allowed",
    when="mask and q_len == k_len",
    conventions=BOTTOM,
)
def padding_on_the_query_axis(q: Array, k: Array, v: Array, *, mask: Array = None) -> Array:
    s = scores_of(q, k, None)
    if mask is None:
        return averaged(s, True, grouped(q, v))
    if q.shape[2] == k.shape[2] and mask.shape[-2] == 1:  # [batch, 1, 1, k_len] unsqueezed on the other side
        mask = np.swapaxes(mask, -1, -2)
    return averaged(s, mask, grouped(q, v))


@fault(
    "lsdefine/attention-is-all-you-need-keras#36",
    "attention",
    names=("fault:mask_by_heads_and_items", "attention.mask_of_first_item"),
    when="mask and batch >= 2 and heads >= 2",
    conventions=BOTTOM,
)
def mask_tiled_over_folded_heads(q: Array, k: Array, v: Array, *, mask: Array = None) -> Array:
    batch, heads, q_len, d = q.shape
    k, v = grouped(q, k), grouped(q, v)
    q2, k2, v2 = (x.reshape(batch * heads, -1, x.shape[-1]) for x in (q, k, v))
    s = q2 @ np.swapaxes(k2, -1, -2) * np.float32(d**-0.5)
    seen = np.ones((1, 1, 1), bool)
    if mask is not None:
        whole = np.broadcast_to(mask, (batch, heads, q_len, k.shape[2]))
        if mask.ndim == 4 and mask.shape[1] == 1:
            seen = np.tile(whole[:, 0], (heads, 1, 1))
        else:
            seen = whole.reshape(batch * heads, q_len, -1)
    return averaged(s, seen, v2).reshape(batch, heads, q_len, -1)


@fault(
    "bledden/triton-msl#7",
    "attention",
    names=("attention.mask_ignored",),
    when="mask and not bias",
    conventions=BOTTOM,
)
def mask_read_beside_a_bias(q: Array, k: Array, v: Array, *, mask: Array = None, bias: Array = None) -> Array:
    s = scores_of(q, k, None)
    if bias is None:
        return averaged(s, True, grouped(q, v))
    return averaged(s + bias, True if mask is None else mask, grouped(q, v))


@fault(
    "PrimeIntellect-ai/prime-rl#2681",
    "attention",
    names=("grouping = tiled",),
    when="kv_heads < heads and kv_heads > 1",
    layout="bshd",
    conventions=BOTTOM,
)
def repeated_on_the_wrong_axis(q: Array, k: Array, v: Array) -> Array:
    groups = q.shape[2] // k.shape[2]
    batch, k_len, kv_heads, d = k.shape

    def expand(x: Array) -> Array:  # [batch, k_len, kv_heads, dim]; repeats what was the axis of heads elsewhere
        return np.repeat(x, groups, axis=1).reshape(batch, k_len, kv_heads * groups, x.shape[-1])

    k, v = expand(k), expand(v)
    s = np.einsum("bshd,bthd->bhst", q, k) * np.float32(d**-0.5)
    return np.einsum("bhst,bthd->bshd", shares(s), v).astype(q.dtype)


@fault(
    "state-spaces/mamba, mha.py without repeat",
    "attention",
    names=("grouping = tiled", "grouped_query.wrong_divisor"),
    when="kv_heads < heads and kv_heads > 1",
    conventions=BOTTOM,
)
def groups_by_remainder(q: Array, k: Array, v: Array, *, causal: bool = False) -> Array:
    out = np.empty((*q.shape[:3], v.shape[-1]), q.dtype)
    for h in range(q.shape[1]):
        g = h % k.shape[1]
        s = q[:, h] @ np.swapaxes(k[:, g], -1, -2) * np.float32(q.shape[-1] ** -0.5)
        out[:, h] = averaged(s, band(q.shape[2], k.shape[2], causal=causal), v[:, g])
    return out


@fault("lightseekorg/tokenspeed#571", "attention", names=("fault:shares_to_base_two",), when="k_len > 32")
def merged_to_base_two(q: Array, k: Array, v: Array) -> Array:
    k, v = grouped(q, k), grouped(q, v)
    seen = np.ones((q.shape[1], q.shape[2], k.shape[2]), bool)
    out = np.empty((*q.shape[:3], v.shape[-1]), q.dtype)
    for b in range(len(q)):
        if k.shape[2] <= 32:
            out[b] = online(q[b], k[b], v[b], seen, None, 16)[0]
            continue
        half = (k.shape[2] + 1) // 2
        one, a = online(q[b], k[b, :, :half], v[b, :, :half], seen[..., :half], None, 16)
        two, c = online(q[b], k[b, :, half:], v[b, :, half:], seen[..., half:], None, 16)
        top = np.maximum(a, c)
        x, y = np.exp2(a - top), np.exp2(c - top)
        out[b] = (one * x + two * y) / (x + y)
    return out


@fault(
    "tenstorrent/tt-metal, split decode",
    "attention",
    names=("fault:one_stretch_of_later_items", "fault:second_stretch_of_first_item"),
    when="batch >= 2 and k_len >= 64",
)
def second_half_of_first_item_alone(q: Array, k: Array, v: Array) -> Array:
    k, v = grouped(q, k), grouped(q, v)
    s = q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5)
    if k.shape[2] >= 64:
        half = k.shape[2] // 2
        s[1:, :, :, half:] = -np.inf  # the merging launch covers one item
    return (shares(s) @ v).astype(q.dtype)


@fault(
    "onnx/onnx#7865",
    "attention",
    names=("attention.cap_after_mask",),
    when="softcap is not None",
    conventions={**BOTTOM, "masked_nonfinite": "propagates"},
)
def capped_after_the_mask(q: Array, k: Array, v: Array, *, mask: Array = None, softcap: float | None = None) -> Array:
    s = scores_of(q, k, None)
    empty = np.zeros((1, 1, 1, 1), bool)
    if mask is not None:
        s = np.where(mask, s, -np.inf)
        empty = ~np.any(np.broadcast_to(mask, s.shape), axis=-1, keepdims=True)
    if softcap is not None:
        s = np.float32(softcap) * np.tanh(s / np.float32(softcap))
    return np.where(empty, 0, shares(s) @ grouped(q, v)).astype(q.dtype)


@fault(
    "sgl-project/sglang#33915",
    "attention",
    names=("attention.cap_ignored",),
    when="q_len == 1 and softcap is not None",
)
def no_cap_in_decode(
    q: Array, k: Array, v: Array, *, scale: float | None = None, softcap: float | None = None
) -> Array:
    s = scores_of(q, k, scale)
    if softcap is not None and q.shape[2] > 1:
        s = np.float32(softcap) * np.tanh(s / np.float32(softcap))
    return (shares(s) @ grouped(q, v)).astype(q.dtype)


@fault(
    "vllm-project/vllm#49815",
    "attention",
    names=("attention.sink_ignored",),
    when="sink and window_left is not None",
    conventions=BOTTOM,
)
def no_sink_in_the_window_path(
    q: Array, k: Array, v: Array, *, sink: Array = None, causal: bool = False, window_left: int | None = None
) -> Array:
    seen = band(q.shape[2], k.shape[2], causal=causal, left=window_left)
    s = np.where(seen, scores_of(q, k, None), -np.inf)
    if sink is None or window_left is not None:
        return (shares(s) @ grouped(q, v)).astype(q.dtype)
    further = np.broadcast_to(sink[:, None, None], (*s.shape[:3], 1))
    w = shares(np.concatenate([s, further], axis=-1))[..., :-1]
    return (w @ grouped(q, v)).astype(q.dtype)


@fault(
    "pytorch/pytorch, mem-efficient attention with expanded keys",
    "attention",
    names=("fault:expanded_keys_read_on", "fault:taken_for_contiguous"),
    when="k_scattered",
)
def keys_read_as_contiguous(q: Array, k: Array, v: Array) -> Array:
    if not k.flags.c_contiguous:
        base = k.base if k.base is not None else k
        flat = np.resize(np.ascontiguousarray(base).ravel(), k.size)
        k = flat.reshape(k.shape)
    return (shares(scores_of(q, k, None)) @ grouped(q, v)).astype(q.dtype)


@fault("pytorch/pytorch#176767", "attention", names=("attention.value_tail",), when="head_dim < value_dim")
def output_of_query_width(q: Array, k: Array, v: Array) -> Array:
    d, e = q.shape[-1], v.shape[-1]
    w = shares(scores_of(q, k, None))
    out = np.zeros((*q.shape[:3], e), q.dtype)
    out[..., : min(d, e)] = w @ grouped(q, v)[..., : min(d, e)]
    return out


@fault(
    "Dao-AILab/flash-attention, unchecked head sizes",
    "attention",
    names=("attention.channel_tail",),
    line="scaled",
    when="head_dim % 16 != 0",
)
def channels_in_sixteens(q: Array, k: Array, v: Array) -> Array:
    d = q.shape[-1]
    whole = d // 16 * 16 if d >= 16 else d
    s = np.zeros((*q.shape[:3], k.shape[2]), np.float32)
    keys = grouped(q, k)
    for a in range(0, whole, 16):
        s += q[..., a : min(a + 16, whole)] @ np.swapaxes(keys[..., a : min(a + 16, whole)], -1, -2)
    return (shares(s * np.float32(d**-0.5)) @ grouped(q, v)).astype(q.dtype)


@fault(
    "flashinfer-ai/flashinfer#3716",
    "attention",
    names=("fault:sum_padded_to_the_tile", "fault:hidden_scores_of_zero"),
    when="k_len % 16 != 0",
)
def padding_lanes_counted(q: Array, k: Array, v: Array) -> Array:
    k, v = grouped(q, k), grouped(q, v)
    fill = -k.shape[2] % 16
    k, v = (np.concatenate([x, np.zeros((*x.shape[:2], fill, x.shape[3]), x.dtype)], axis=2) for x in (k, v))
    s = q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5)
    return (shares(s) @ v).astype(q.dtype)


@fault(
    "microsoft/onnxruntime#29020",
    "attention",
    names=("causal_alignment = top_left",),
    when="causal and q_len != k_len",
    conventions=BOTTOM,
)
def aligned_at_the_first_key(q: Array, k: Array, v: Array, *, causal: bool = False) -> Array:
    s = scores_of(q, k, None)
    seen = np.tril(np.ones(s.shape[-2:], bool)) if causal else np.ones(s.shape[-2:], bool)
    return averaged(s, seen, grouped(q, v))


@fault(
    "a scale lost in plain calls",
    "attention",
    names=("attention.ignored_scale",),
    when="scale is not None and not mask and not bias",
)
def scale_lost_in_plain_calls(
    q: Array, k: Array, v: Array, *, mask: Array = None, bias: Array = None, scale: float | None = None
) -> Array:
    if mask is None and bias is None:
        return (shares(scores_of(q, k, None)) @ grouped(q, v)).astype(q.dtype)
    s = scores_of(q, k, scale)
    s = s if bias is None else s + bias
    return averaged(s, True if mask is None else mask, grouped(q, v))


@fault(
    "PrimeIntellect-ai/prime-rl, grouped decode",
    "attention",
    names=("grouped_query.first_head",),
    when="q_len == 1 and kv_heads < heads and kv_heads > 1",
    conventions=BOTTOM,
)
def first_head_in_grouped_decode(q: Array, k: Array, v: Array, *, causal: bool = False) -> Array:
    if q.shape[2] == 1 and 1 < k.shape[1] < q.shape[1]:
        k, v = k[:, :1], v[:, :1]
    seen = band(q.shape[2], k.shape[2], causal=causal)
    return averaged(scores_of(q, k, None), seen, grouped(q, v))


@fault(
    "pytorch/pytorch#162588",
    "attention",
    names=("attention.late_keys",),
    line="allowed",
    when="mask and k_len > 64",
    conventions=BOTTOM,
)
def mask_of_first_keys(q: Array, k: Array, v: Array, *, mask: Array = None) -> Array:
    s = scores_of(q, k, None)
    if mask is not None:
        mask = np.broadcast_to(mask, s.shape).copy()
        mask[..., 64:] = True
    return averaged(s, True if mask is None else mask, grouped(q, v))
