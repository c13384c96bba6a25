"""Attention to keys of given numbers, one head and one query at a time.

DeepSeek-AI 2025, DeepSeek-V3.2, arXiv:2512.02556, section 2.1, equation 2; for blocks of keys, Yuan et al. 2025, Native
sparse attention, arXiv:2502.11089, section 3.3.2.
"""

import math

import numpy as np

from .attention import shares


def gathered_attention(
    q,
    k,
    v,
    selected,
    *,
    block_size=1,
    scale=None,
    causal=False,
    repeats="counted",
    beyond="nothing",
    empty_row="zeros",
    masked_nonfinite="ignored",
    grouping="block",
    lse_base="natural",
):
    """Attention of each query to the keys, or blocks of keys, whose numbers it is given, with its logsumexp.

    q [batch, heads, q_len, head_dim], k [batch, kv_heads, k_len, head_dim], v [batch, kv_heads, k_len, value_dim];
    selected [batch, lists, q_len, count], where lists is 1 or kv_heads, and -1 names nothing.
    Returns out [batch, heads, q_len, value_dim] and lse [batch, heads, q_len].
    """
    batch, heads, q_len, d = q.shape
    kv_heads, k_len = k.shape[1:3]
    if selected.shape[0] != batch or selected.shape[1] not in (1, kv_heads) or selected.shape[2] != q_len:
        raise ValueError("every query has a list, for all heads or for each head of keys")
    if k.shape[:3] != v.shape[:3] or k.shape[3] != d:
        raise ValueError("queries, keys and values belong together")
    s = 1 / math.sqrt(d) if scale is None else scale
    out, lse = np.zeros((batch, heads, q_len, v.shape[3])), np.full((batch, heads, q_len), -math.inf)
    for b, h, i in np.ndindex(batch, heads, q_len):
        g = h // (heads // kv_heads) if grouping == "block" else h % kv_heads
        last = k_len - q_len + i if causal else k_len - 1
        seen = [
            j
            for n in selected[b, g if selected.shape[1] > 1 else 0, i].tolist()
            for j in range(n * block_size, (n + 1) * block_size)
            if n >= 0 and j < k_len and j <= last
        ]
        seen = sorted(set(seen)) if repeats == "once" else seen
        if seen:
            a, total = shares(s * k[b, g, seen] @ q[b, h, i], None)
            out[b, h, i] = a @ v[b, g, seen]
            lse[b, h, i] = total / math.log(2) if lse_base == "two" else total
        elif empty_row != "zeros":
            out[b, h, i] = math.nan
    return {"out": out, "lse": lse}
