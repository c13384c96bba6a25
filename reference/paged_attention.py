"""Attention over pages of keys and values, item by item.

Kwon et al. 2023, Efficient memory management for large language model serving with PagedAttention, arXiv:2309.06180,
section 4.1: token t of an item lies in page table[t // page_size], at place t % page_size.
"""

import numpy as np

from .attention import attention


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
    k_scale=None,
    v_scale=None,
    empty_row="zeros",
    masked_nonfinite="ignored",
    unused_entries="unread",
    grouping="block",
):
    """The outputs [batch, q_len, heads, value_dim] of the last q_len tokens of every item.

    q [batch, q_len, heads, head_dim], key_pages [pages, page_size, kv_heads, head_dim],
    value_pages [pages, page_size, kv_heads, value_dim], table [batch, max_pages], k_lens [batch].
    Of codes, `k_scale` and `v_scale` have the axes of their pages, each of full length or 1.
    """
    key_pages = key_pages if k_scale is None else key_pages * k_scale
    value_pages = value_pages if v_scale is None else value_pages * v_scale
    page_size = key_pages.shape[1]
    out = np.zeros((*q.shape[:3], value_pages.shape[3]))
    for b, count in enumerate(k_lens):
        t = np.arange(count)
        held = (pages[table[b, t // page_size], t % page_size] for pages in (key_pages, value_pages))
        one = attention(
            *(x.swapaxes(0, 1)[None] for x in (q[b], *held)),
            scale=scale,
            causal=True,
            window_left=window_left,
            softcap=softcap,
            empty_row=empty_row,
            grouping=grouping,
        )
        out[b] = one["out"][0].swapaxes(0, 1)
    return out
