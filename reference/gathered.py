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
    sink=None,
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
    `sink` [heads] is one more score of every query of its head, without a value.
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
        seen = named(selected[b, g if selected.shape[1] > 1 else 0, i], i, q_len, k_len, block_size, causal)
        seen = sorted(set(seen)) if repeats == "once" else seen
        if seen:
            a, total = shares(s * k[b, g, seen] @ q[b, h, i], None if sink is None else sink[h])
            out[b, h, i] = a @ v[b, g, seen]
            lse[b, h, i] = total / math.log(2) if lse_base == "two" else total
        elif empty_row != "zeros" and sink is None:
            out[b, h, i] = math.nan
    return {"out": out, "lse": lse}


def gathered_attention_gradient(
    q,
    k,
    v,
    selected,
    d_out,
    *,
    sink=None,
    block_size=1,
    scale=None,
    causal=False,
    repeats="counted",
    beyond="nothing",
    empty_row="zeros",
    grouping="block",
):
    """The gradients of sum(out * d_out): d_q, d_k, d_v and d_sink, in the shapes of what they belong to.

    The arrays are those of `gathered_attention`; d_out [batch, heads, q_len, value_dim] is the gradient of its output,
    and `sink` [heads] is one more score of every query, without a value. Without a sink, its gradient is zero.
    """
    if d_out.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError("every output has a gradient")
    heads, kv_heads, s = q.shape[1], k.shape[1], 1 / math.sqrt(q.shape[3]) if scale is None else scale
    d_q, d_k, d_v, d_sink = (np.zeros(shape) for shape in (q.shape, k.shape, v.shape, heads))
    for b, h, i in np.ndindex(q.shape[:3]):
        g = h // (heads // kv_heads) if grouping == "block" else h % kv_heads
        seen = named(selected[b, g if selected.shape[1] > 1 else 0, i], i, q.shape[2], k.shape[2], block_size, causal)
        seen = sorted(set(seen)) if repeats == "once" else seen
        if not seen:
            continue
        a, _ = shares(s * k[b, g, seen] @ q[b, h, i], None if sink is None else sink[h])
        gain = v[b, g, seen] @ d_out[b, h, i]
        d_score = a * (gain - a @ gain)
        d_q[b, h, i] = s * d_score @ k[b, g, seen]
        np.add.at(d_k[b, g], seen, s * np.outer(d_score, q[b, h, i]))
        np.add.at(d_v[b, g], seen, np.outer(a, d_out[b, h, i]))
        d_sink[h] -= (1 - sum(a)) * (a @ gain)
    return {"d_q": d_q, "d_k": d_k, "d_v": d_v, "d_sink": np.zeros(()) if sink is None else d_sink}


def named(numbers, i, q_len, k_len, block_size, causal):
    """The keys that query i may see of those, or of the blocks, that a list names, in the order of the list."""
    last = k_len - q_len + i if causal else k_len - 1
    return [
        j
        for n in numbers.tolist()
        for j in range(n * block_size, (n + 1) * block_size)
        if n >= 0 and j < k_len and j <= last
    ]
