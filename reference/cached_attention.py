"""Attention with a cache: a sequence is fed chunk by chunk, and what was fed is kept.

Shazeer 2019, Fast transformer decoding: one write-head is all you need, arXiv:1911.02150, section 2.4.
The window: Jiang et al. 2023, Mistral 7B, arXiv:2310.06825, section 2.
"""

import math

import numpy as np


def cached_attention(
    q,
    k,
    v,
    *,
    chunks,
    mask=None,
    capacity=None,
    window_left=None,
    beams=None,
    scale=None,
    k_scale=None,
    v_scale=None,
    grouping="block",
):
    """The outputs of all chunks: `[batch, heads, length, value_dim]`.

    q [batch, heads, length, head_dim], k [batch, kv_heads, length, head_dim], v [batch, kv_heads, length, value_dim];
    mask (True: may attend) broadcasts to [batch, heads, length, length]; beams [batch], the row that each row goes on
    from after the first chunk. A query that may see no key returns NaN.
    Of codes, `k_scale` and `v_scale` have the axes of k and v, each of full length or 1.
    """
    k = k if k_scale is None else k * k_scale
    v = v if v_scale is None else v * v_scale
    batch, heads, length, d = q.shape
    kv_heads = k.shape[1]
    if sum(chunks) != length or any(n < 1 for n in chunks):
        raise ValueError("the chunks add up to the length")
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError("the heads are a multiple of those of the keys")
    if beams is not None and mask is not None:
        raise ValueError("rows with masks of their own are not exchanged")
    s = 1 / math.sqrt(d) if scale is None else scale
    mask = np.broadcast_to(True if mask is None else mask, (batch, heads, length, length))

    K, V = k[:, :, :0], v[:, :, :0]  # the cache
    out = np.full((batch, heads, length, v.shape[3]), np.nan)
    for n in chunks:
        start = K.shape[2]
        K = np.concatenate([K, k[:, :, start : start + n]], axis=2)  # [batch, kv_heads, start + n, head_dim]
        V = np.concatenate([V, v[:, :, start : start + n]], axis=2)
        if capacity is not None and K.shape[2] > capacity:
            raise ValueError("the cache is full")
        for b, h, t in np.ndindex(batch, heads, n):
            i, g = start + t, h // (heads // kv_heads) if grouping == "block" else h % kv_heads
            first = 0 if window_left is None else max(i - window_left, 0)
            seen = [j for j in range(first, i + 1) if mask[b, h, i, j]]
            if seen:
                e = s * K[b, g, seen] @ q[b, h, i]  # [len(seen)]
                a = np.exp(e - e.max())
                out[b, h, i] = a / a.sum() @ V[b, g, seen]
        if start == 0 and beams is not None:
            K, V = K[np.asarray(beams)], V[np.asarray(beams)]
    return out
