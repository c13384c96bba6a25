"""Attention over items of different lengths that lie one behind the other, item by item and query by query.

Krell et al. 2021, Efficient sequence packing without cross-contamination, arXiv:2107.02027, section 3.3.
"""

import math

import numpy as np

from .attention import within


def packed_attention(
    q,
    k,
    v,
    q_lens,
    k_lens,
    *,
    scale=None,
    causal=False,
    window_left=None,
    window_right=None,
    softcap=None,
    causal_alignment="bottom_right",
    empty_row="zeros",
    masked_nonfinite="ignored",
    grouping="block",
    lse_base="natural",
):
    """Attention of each item with its logsumexp.

    q [q_tokens, heads, head_dim], k [k_tokens, kv_heads, head_dim], v [k_tokens, kv_heads, value_dim];
    q_lens and k_lens [items], which add up to q_tokens and k_tokens.
    Returns out [q_tokens, heads, value_dim], lse [heads, q_tokens].
    """
    (q_tokens, heads, d), (k_tokens, kv_heads, _) = q.shape, k.shape
    if sum(q_lens) != q_tokens or sum(k_lens) != k_tokens or min([0, *q_lens, *k_lens]) < 0:
        raise ValueError("the lengths add up to the tokens")
    s = 1 / math.sqrt(d) if scale is None else scale

    out = np.full((q_tokens, heads, v.shape[2]), 0.0 if empty_row == "zeros" else math.nan)
    lse = np.full((heads, q_tokens), -math.inf)
    q_start = k_start = 0
    for n, m in zip(q_lens, k_lens, strict=True):
        offset = m - n if causal_alignment == "bottom_right" else 0
        for i, h in np.ndindex(n, heads):
            g = h // (heads // kv_heads) if grouping == "block" else h % kv_heads
            seen = [k_start + j for j in range(m) if within(i + offset, j, causal, window_left, window_right)]
            if not seen:
                continue
            e = s * k[seen, g] @ q[q_start + i, h]  # [len(seen)]
            if softcap is not None:
                e = softcap * np.tanh(e / softcap)
            a = np.exp(e - e.max())
            out[q_start + i, h] = a / a.sum() @ v[seen, g]
            total = e.max() + math.log(a.sum())
            lse[h, q_start + i] = total / math.log(2) if lse_base == "two" else total
        q_start, k_start = q_start + n, k_start + m
    return {"out": out, "lse": lse}
