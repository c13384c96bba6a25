"""Attention to blocks of keys, one query at a time, and its gradients.

Child et al. 2019, arXiv:1904.10509, section 5.3: kernels over blocks.
Dong et al. 2024, arXiv:2412.05496, section 3: the mask of blocks, whose last ones may be short.
"""

import math

import numpy as np

from .attention import shares, within
from .attention_gradient import attention_gradient


def block_sparse_attention(
    q,
    k,
    v,
    blocks,
    *,
    q_block_size,
    k_block_size,
    scale=None,
    causal=False,
    window_left=None,
    window_right=None,
    causal_alignment="bottom_right",
    empty_row="zeros",
    masked_nonfinite="ignored",
    grouping="block",
    lse_base="natural",
):
    """Attention of each query to the keys of the blocks that its own block is given, with its logsumexp.

    q [batch, heads, q_len, head_dim], k [batch, kv_heads, k_len, head_dim], v [batch, kv_heads, k_len, value_dim];
    blocks [batch, heads, q_blocks, k_blocks], true where a block of queries sees a block of keys.
    Returns out [batch, heads, q_len, value_dim] and lse [batch, heads, q_len].
    """
    batch, heads, q_len, d = q.shape
    kv_heads, k_len = k.shape[1:3]
    if blocks.shape != (batch, heads, -(-q_len // q_block_size), -(-k_len // k_block_size)):
        raise ValueError("a layout has a row for every block of queries and a column for every block of keys")
    if k.shape[:3] != v.shape[:3] or k.shape[3] != d:
        raise ValueError("queries, keys and values belong together")
    s = 1 / math.sqrt(d) if scale is None else scale
    offset = k_len - q_len if causal_alignment == "bottom_right" else 0
    out, lse = np.zeros((batch, heads, q_len, v.shape[3])), np.full((batch, heads, q_len), -math.inf)
    for b, h, i in np.ndindex(batch, heads, q_len):
        g = h // (heads // kv_heads) if grouping == "block" else h % kv_heads
        seen = [
            j
            for c in np.flatnonzero(blocks[b, h, i // q_block_size])
            for j in range(c * k_block_size, min((c + 1) * k_block_size, k_len))
            if within(i + offset, j, causal, window_left, window_right)
        ]
        if seen:
            a, total = shares(s * k[b, g, seen] @ q[b, h, i], None)
            out[b, h, i] = a @ v[b, g, seen]
            lse[b, h, i] = total / math.log(2) if lse_base == "two" else total
        elif empty_row != "zeros":
            out[b, h, i] = math.nan if empty_row == "nans" else v[b, g].mean(0)
    return {"out": out, "lse": lse}


def block_sparse_attention_gradient(
    q,
    k,
    v,
    blocks,
    d_out,
    *,
    q_block_size,
    k_block_size,
    scale=None,
    causal=False,
    window_left=None,
    window_right=None,
    causal_alignment="bottom_right",
    empty_row="zeros",
    grouping="block",
):
    """The gradients of sum(out * d_out), as those of attention under a mask: d_q, d_k and d_v, like q, k and v.

    The arrays are those of `block_sparse_attention`, and d_out [batch, heads, q_len, value_dim] is like its output.
    """
    q_len, k_len = q.shape[2], k.shape[2]
    if blocks.shape != (*q.shape[:2], -(-q_len // q_block_size), -(-k_len // k_block_size)):
        raise ValueError("a layout has a row for every block of queries and a column for every block of keys")
    rows, columns = np.arange(q_len) // q_block_size, np.arange(k_len) // k_block_size
    found = attention_gradient(
        q,
        k,
        v,
        d_out,
        mask=blocks[:, :, rows[:, None], columns],
        scale=scale,
        causal=causal,
        window_left=window_left,
        window_right=window_right,
        causal_alignment=causal_alignment,
        empty_row=empty_row,
        grouping=grouping,
    )
    return {name: found[name] for name in ("d_q", "d_k", "d_v")}
