"""Attention that writes its new keys and values into a cache, item by item.

Shazeer 2019, Fast transformer decoding: one write-head is all you need, arXiv:1911.02150, section 2.4.
Turned by positions: Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.2; the window: Jiang et al. 2023, Mistral 7B,
arXiv:2310.06825, section 2.
"""

import numpy as np

from .attention import attention
from .positions import rotary


def appended_attention(
    q,
    k,
    v,
    key_cache,
    value_cache,
    k_lens,
    rows=None,
    *,
    scale=None,
    window_left=None,
    softcap=None,
    base=None,
    interleaved=False,
    rotary_dim=None,
    masked_nonfinite="ignored",
    grouping="block",
):
    """Attention of new tokens to those of their row and to each other, and the caches with the new tokens.

    q [batch, length, heads, head_dim], k [batch, length, kv_heads, head_dim], v [batch, length, kv_heads, value_dim],
    key_cache [cache_rows, capacity, kv_heads, head_dim], value_cache [cache_rows, capacity, kv_heads, value_dim],
    k_lens [batch], the tokens of each item before this call, and rows [batch], its row.
    Returns out [batch, length, heads, value_dim], and keys and values like the caches.
    """
    K, V = key_cache.copy(), value_cache.copy()
    B, T = k.shape[:2]
    own = np.arange(B) if rows is None else np.asarray(rows)
    fits = q.shape[:2] == v.shape[:2] == (B, T) and q.shape[3] == k.shape[3] == K.shape[3] and v.shape[3] == V.shape[3]
    if not fits or np.any(k_lens + T > K.shape[1]) or len(set(own.tolist())) < B or np.any(own >= len(K)):
        raise ValueError("new tokens that fit the cache, and a row of its own for each item")
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for b, (r, n) in enumerate(zip(own, k_lens, strict=True)):
        x, y = q[b].swapaxes(0, 1)[None], k[b].swapaxes(0, 1)[None]  # [1, heads, length, head_dim]
        if base is not None:
            turn = {"base": base, "interleaved": interleaved, "rotary_dim": rotary_dim}
            x, y = (rotary(z, n + np.arange(T), **turn) for z in (x, y))
        K[r, n : n + T], V[r, n : n + T] = y[0].swapaxes(0, 1), v[b]
        one = attention(
            x,
            *(cache[r, : n + T].swapaxes(0, 1)[None] for cache in (K, V)),
            causal=True,
            scale=scale,
            window_left=window_left,
            softcap=softcap,
            grouping=grouping,
        )
        out[b] = one["out"][0].swapaxes(0, 1)
    return {"out": out, "keys": K, "values": V}
