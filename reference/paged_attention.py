"""Attention over pages of keys and values, token by token.

Kwon et al. 2023, Efficient memory management for large language model serving with PagedAttention, arXiv:2309.06180,
section 4.1: token t of an item lies in page table[t // page_size], at place t % page_size.
"""

import math

import numpy as np

from .attention import within


def paged_attention(
    q,
    key_pages,
    value_pages,
    table,
    k_lens,
    *,
    scale=None,
    window_left=None,
    softcap=None,
    empty_row="zeros",
    masked_nonfinite="ignored",
    unused_entries="unread",
    grouping="block",
):
    """The outputs [batch, q_len, heads, value_dim] of the last q_len tokens of every item.

    q [batch, q_len, heads, head_dim], key_pages [pages, page_size, kv_heads, head_dim],
    value_pages [pages, page_size, kv_heads, value_dim], table [batch, max_pages], k_lens [batch].
    """
    batch, q_len, heads, d = q.shape
    _, page_size, kv_heads, _ = key_pages.shape
    s = 1 / math.sqrt(d) if scale is None else scale

    out = np.full((batch, q_len, heads, value_pages.shape[3]), 0.0 if empty_row == "zeros" else math.nan)
    for b, i, h in np.ndindex(batch, q_len, heads):
        at = k_lens[b] - q_len + i
        g = h // (heads // kv_heads) if grouping == "block" else h % kv_heads
        seen = [t for t in range(k_lens[b]) if within(at, t, True, window_left, None)]
        if not seen:
            continue
        K, V = (
            np.array([x[table[b, t // page_size], t % page_size, g] for t in seen]) for x in (key_pages, value_pages)
        )
        e = s * K @ q[b, i, h]  # [len(seen)]
        if softcap is not None:
            e = softcap * np.tanh(e / softcap)
        a = np.exp(e - e.max())
        out[b, i, h] = a / a.sum() @ V
    return out
