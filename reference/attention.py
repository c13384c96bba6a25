"""Scaled dot-product attention, one query at a time.

Vaswani et al. 2017, Attention is all you need, section 3.2.1, equation 1.
Groups of heads: Ainslie et al. 2023, arXiv:2305.13245. Windows: Beltagy et al. 2020, arXiv:2004.05150.
The cap on scores: Gemma Team 2024, arXiv:2408.00118. Sinks: Xiao et al. 2023, arXiv:2309.17453.
"""

import math

import numpy as np


def attention(
    q,
    k,
    v,
    *,
    scale=None,
    mask=None,
    bias=None,
    sink=None,
    causal=False,
    window_left=None,
    window_right=None,
    softcap=None,
    dropout_p=0.0,
    seed=None,
    q_scale=None,
    k_scale=None,
    v_scale=None,
    out_scale=None,
    scale_block=None,
    causal_alignment="bottom_right",
    empty_row="zeros",
    empty_bias_row="zero_row",
    masked_nonfinite="ignored",
    grouping="block",
    lse_base="natural",
):
    """Attention with its logsumexp and weights.

    q [batch, heads, q_len, head_dim], k [batch, kv_heads, k_len, head_dim], v [batch, kv_heads, k_len, value_dim];
    mask (True: may attend) and bias broadcast to [batch, heads, q_len, k_len]; sink [heads].
    Of codes, `q_scale`, `k_scale` and `v_scale` have the axes of q, k and v, each of full length or 1, and as many keys
    as `scale_block` says share one scale. With an `out_scale` the output is codes in float8_e4m3fn.
    With `dropout_p`, weights are dropped after the softmax; those that are returned are not.
    Returns out [batch, heads, q_len, value_dim], lse [batch, heads, q_len], weights [batch, heads, q_len, k_len].
    """
    q = q if q_scale is None else q * q_scale
    k, v = unscaled(k, k_scale, scale_block), unscaled(v, v_scale, scale_block)
    batch, heads, q_len, d = q.shape
    kv_heads, k_len = k.shape[1:3]
    s = 1 / math.sqrt(d) if scale is None else scale
    placed = causal or window_left is not None or window_right is not None
    offset = k_len - q_len if placed and causal_alignment == "bottom_right" else 0
    mask = np.broadcast_to(True if mask is None else mask, (batch, heads, q_len, k_len))
    bias = np.broadcast_to(0.0 if bias is None else bias, (batch, heads, q_len, k_len))

    if dropout_p:
        drawn = np.random.default_rng(seed).random((batch, heads, q_len, k_len))
        kept = (drawn >= dropout_p) / (1 - dropout_p)
    else:
        kept = np.ones((batch, heads, q_len, k_len))

    out = np.zeros((batch, heads, q_len, v.shape[3]))
    lse = np.zeros((batch, heads, q_len))
    weights = np.zeros((batch, heads, q_len, k_len))
    for b, h, i in np.ndindex(batch, heads, q_len):
        g = h // (heads // kv_heads) if grouping == "block" else h % kv_heads
        K, V = k[b, g], v[b, g]
        seen = [
            j for j in range(k_len) if mask[b, h, i, j] and within(i + offset, j, causal, window_left, window_right)
        ]
        left = [j for j in seen if bias[b, h, i, j] > -math.inf]
        if not left:
            word = (empty_bias_row if seen else empty_row).split("_")[0].rstrip("s")
            zero = word == "zero" or sink is not None
            out[b, h, i] = 0.0 if zero else math.nan if word == "nan" else V.mean(0)
            lse[b, h, i] = -math.inf
            continue
        e = s * K[left] @ q[b, h, i]  # [len(left)]
        if softcap is not None:
            e = softcap * np.tanh(e / softcap)
        e = e + bias[b, h, i, left]
        a, total = shares(e, None if sink is None else sink[h])
        weights[b, h, i, left] = a
        out[b, h, i] = (a * kept[b, h, i, left]) @ V[left]
        lse[b, h, i] = total / math.log(2) if lse_base == "two" else total
    return {"out": codes_of(out, out_scale), "lse": lse, "weights": weights}


def empty_row_of(word, keys):
    """What the queries of an item with so many keys return that see none of them."""
    return word if word != "hidden_nans" else "nans" if keys else "zeros"


def codes_of(x, scale):
    """What the codes in float8_e4m3fn of x / scale represent, the largest ones beyond the range; x without a scale."""
    if scale is None:
        return x
    x = x / scale
    unit = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1, -6) - 3)  # four digits, and no binade below 2 ** -6
    return np.clip(np.rint(x / unit) * unit, -448.0, 448.0)


def unscaled(codes, scale, block):
    """The numbers that codes [..., tokens, channels] represent; each token of a block has its scale."""
    if scale is None:
        return codes
    if scale.shape[-2] > 1 and block is not None:
        scale = np.repeat(scale, block, axis=-2)[..., : codes.shape[-2], :]
    return codes * scale


def within(i, j, causal, window_left, window_right):
    """Whether a query at position i reaches a key at position j."""
    if causal and j > i:
        return False
    if window_left is not None and i - j > window_left:
        return False
    return window_right is None or j - i <= window_right


def shares(e, sink):
    """The softmax of scores e, a sink among them if there is one, and the logsumexp of all of them."""
    top = e.max() if sink is None else max(e.max(), sink)
    w = np.exp(e - top)
    total = w.sum() + (0.0 if sink is None else math.exp(sink - top))
    return w / total, top + math.log(total)
