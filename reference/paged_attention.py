"""Attention over pages of keys and values, item by item.

Kwon et al. 2023, Efficient memory management for large language model serving with PagedAttention, arXiv:2309.06180,
section 4.1: token t of an item lies in page table[t // page_size], at place t % page_size.
"""

import numpy as np

from .attention import attention, codes_of, empty_row_of
from .positions import rotary


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
    sink=None,
    slopes=None,
    mask=None,
    bias=None,
    window_right=0,
    spans=None,
    clamp_spans=False,
    q_scale=None,
    k_scale=None,
    v_scale=None,
    out_scale=None,
    empty_row="zeros",
    masked_nonfinite="ignored",
    unused_entries="unread",
    grouping="block",
    lse_base="natural",
):
    """Attention of the last q_len tokens of every item, with its logsumexp.

    q [batch, q_len, heads, head_dim], key_pages [pages, page_size, kv_heads, head_dim],
    value_pages [pages, page_size, kv_heads, value_dim], table [batch, max_pages], k_lens [batch].
    Returns out [batch, q_len, heads, value_dim], lse [batch, heads, q_len].
    `sink` [heads] is one more score without a value, and `slopes` [heads] times the distance are taken off the scores.
    `mask` [batch, q_len, max_pages * page_size] is true where a query may see a token of its item.
    `bias` [batch, heads, q_len, max_pages * page_size], batch and heads or 1, is added to the scores.
    `window_right` is the number of tokens that a query sees behind its own, all of them if it is None.
    `spans` [batch, spans, 2] have the first and the last positions of tokens that see each other,
    with `clamp_spans` no further back than the window reaches.
    Of codes, `q_scale`, `k_scale` and `v_scale` have the axes of the queries and pages, each of full length or 1.
    With an `out_scale` the output is codes in float8_e4m3fn.
    """
    q = q if q_scale is None else q * q_scale
    key_pages = key_pages if k_scale is None else key_pages * k_scale
    value_pages = value_pages if v_scale is None else value_pages * v_scale
    page_size = key_pages.shape[1]
    out, lse = np.zeros((*q.shape[:3], value_pages.shape[3])), np.zeros((q.shape[0], q.shape[2], q.shape[1]))
    for b, count in enumerate(k_lens):
        t = np.arange(count)
        held = (pages[table[b, t // page_size], t % page_size] for pages in (key_pages, value_pages))
        row = count - q.shape[1] + np.arange(q.shape[1])[:, None]
        distance = row - t
        near = distance <= (np.inf if window_left is None else window_left)
        seen = near & (-distance <= (np.inf if window_right is None else window_right))
        for first, last in [] if spans is None else spans[b]:
            both = (first <= row) & (row <= last) & (first <= t) & (t <= last)
            seen |= both & (near if clamp_spans else True)
        one = attention(
            *(x.swapaxes(0, 1)[None] for x in (q[b], *held)),
            bias=added(slopes, bias, b, distance),
            sink=sink,
            mask=(seen if mask is None else seen & mask[b, :, :count])[None, None],
            scale=scale,
            softcap=softcap,
            empty_row=empty_row_of(empty_row, count),
            grouping=grouping,
            lse_base=lse_base,
        )
        out[b], lse[b] = one["out"][0].swapaxes(0, 1), one["lse"][0]
    return {"out": codes_of(out, out_scale), "lse": lse}


def added(slopes, bias, b, distance):
    """What is added to the scores of item b: linear biases, given ones, or nothing."""
    if slopes is not None:
        return -slopes[None, :, None, None] * distance
    return None if bias is None else bias[b % len(bias), ..., : distance.shape[1]][None]


def rotary_cache(
    q,
    k,
    v,
    key_cache,
    value_cache,
    positions,
    slots,
    k_scale=None,
    v_scale=None,
    *,
    base=10000.0,
    interleaved=False,
    rotary_dim=None,
):
    """The turned queries [tokens, heads, dim], and the caches [pages, page_size, kv_heads, dim] with keys and values.

    Su et al. 2021, arXiv:2104.09864; slots [tokens] count through the pages as in section 4.3 of Kwon et al. 2023,
    arXiv:2309.06180, and a negative one is that of no token. Where there are scales the caches hold codes.
    """
    P, S, _, D = key_cache.shape
    if k.shape[2] != D or v.shape[2] != D or q.shape[2] != D or np.any(slots >= P * S):
        raise ValueError("keys, values and queries as wide as the cache, and slots inside it")
    turn = {"base": base, "interleaved": interleaved, "rotary_dim": rotary_dim}
    keys, values = key_cache.copy(), value_cache.copy()
    q_out, k_out = q.copy(), np.full(k.shape, np.nan)
    for t, slot in enumerate(slots):
        q_out[t] = rotary(q[t][None, :, None], positions[t : t + 1], **turn)[0, :, 0]
        if slot < 0:
            continue
        k_out[t] = rotary(k[t][None, :, None], positions[t : t + 1], **turn)[0, :, 0]
        for cache, x, scale in ((keys, k_out[t], k_scale), (values, v[t], v_scale)):
            cache[slot // S, slot % S] = codes_of(x, scale)
    return {"q_out": q_out, "keys": keys, "values": values, "k_out": k_out}
