"""Attention over items of different lengths that lie one behind the other, item by item, and its gradients.

Krell et al. 2021, Efficient sequence packing without cross-contamination, arXiv:2107.02027, section 3.3.
"""

import numpy as np

from .attention import attention, codes_of, empty_row_of
from .attention_gradient import attention_gradient


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
    sink=None,
    slopes=None,
    q_scale=None,
    k_scale=None,
    v_scale=None,
    out_scale=None,
    q_slots=None,
    k_slots=None,
    causal_alignment="bottom_right",
    empty_row="zeros",
    masked_nonfinite="ignored",
    grouping="block",
    lse_base="natural",
    padded_queries="zeroed",
):
    """Attention of each item with its logsumexp.

    q [q_tokens, heads, head_dim], k [k_tokens, kv_heads, head_dim], v [k_tokens, kv_heads, value_dim];
    q_lens and k_lens [items], which add up to q_tokens and k_tokens.
    `sink` [heads] is one more score without a value, and `slopes` [heads] times the distance are taken off the scores.
    Of codes, `q_scale`, `k_scale` and `v_scale` are [items, heads, channels] of them, each axis of full length or 1.
    With an `out_scale` the output is codes in float8_e4m3fn.
    With `q_slots` and `k_slots` [items], which add up to the tokens then, an item is at the front of so many places.
    Returns out [q_tokens, heads, value_dim], lse [heads, q_tokens]; both are NaN for padding of which nothing is said.
    """
    q_slots, k_slots = q_lens if q_slots is None else q_slots, k_lens if k_slots is None else k_slots
    if sum(q_slots) != len(q) or sum(k_slots) != len(k) or min([0, *q_lens, *k_lens]) < 0:
        raise ValueError("the lengths add up to the tokens")
    if any(np.greater(q_lens, q_slots)) or any(np.greater(k_lens, k_slots)):
        raise ValueError("an item is no longer than its slot")
    zeros = padded_queries == "zeroed"
    out = np.full((*q.shape[:2], v.shape[2]), 0.0 if zeros else np.nan)
    lse = np.full(q.shape[1::-1], -np.inf if zeros else np.nan)
    q_start = k_start = 0
    for i, (n, m, q_slot, k_slot) in enumerate(zip(q_lens, k_lens, q_slots, k_slots, strict=True)):
        own = {"q_scale": of_item(q_scale, i), "k_scale": of_item(k_scale, i), "v_scale": of_item(v_scale, i)}
        queries, keys = slice(q_start, q_start + n), slice(k_start, k_start + m)
        aligned = m - n if causal_alignment == "bottom_right" else 0
        distance = abs(np.arange(n)[:, None] + aligned - np.arange(m))
        one = attention(
            *(x.swapaxes(0, 1)[None] for x in (q[queries], k[keys], v[keys])),
            **own,
            sink=sink,
            bias=None if slopes is None else -slopes[None, :, None, None] * distance,
            scale=scale,
            causal=causal,
            window_left=window_left,
            window_right=window_right,
            softcap=softcap,
            causal_alignment=causal_alignment,
            empty_row=empty_row_of(empty_row, m),
            grouping=grouping,
            lse_base=lse_base,
        )
        out[queries], lse[:, queries] = one["out"][0].swapaxes(0, 1), one["lse"][0]
        q_start, k_start = q_start + q_slot, k_start + k_slot
    return {"out": codes_of(out, out_scale), "lse": lse}


def packed_attention_gradient(
    q,
    k,
    v,
    q_lens,
    k_lens,
    d_out,
    *,
    sink=None,
    scale=None,
    causal=False,
    window_left=None,
    window_right=None,
    softcap=None,
    q_slots=None,
    k_slots=None,
    causal_alignment="bottom_right",
    empty_row="zeros",
    grouping="block",
    padded_gradients="zeroed",
):
    """The gradients of sum(out * d_out), item by item: d_q, d_k, d_v and d_sink, in the shapes of what they belong to.

    The arrays are those of `packed_attention`, and d_out [q_tokens, heads, value_dim] is the gradient of its output.
    Without a sink, its gradient is zero.
    Gradients of padding are NaN where nothing is said of them.
    """
    q_slots, k_slots = q_lens if q_slots is None else q_slots, k_lens if k_slots is None else k_slots
    if sum(q_slots) != len(q) or sum(k_slots) != len(k) or min([0, *q_lens, *k_lens]) < 0 or len(d_out) != len(q):
        raise ValueError("the lengths add up to the tokens, and every output has a gradient")
    if any(np.greater(q_lens, q_slots)) or any(np.greater(k_lens, k_slots)):
        raise ValueError("an item is no longer than its slot")
    padding = 0.0 if padded_gradients == "zeroed" else np.nan
    found = {"d_q": np.full(q.shape, padding), "d_k": np.full(k.shape, padding), "d_v": np.full(v.shape, padding)}
    d_sink = np.zeros(() if sink is None else sink.shape)
    q_start = k_start = 0
    for n, m, q_slot, k_slot in zip(q_lens, k_lens, q_slots, k_slots, strict=True):
        queries, keys = slice(q_start, q_start + n), slice(k_start, k_start + m)
        one = attention_gradient(
            *(x.swapaxes(0, 1)[None] for x in (q[queries], k[keys], v[keys], d_out[queries])),
            sink=sink,
            scale=scale,
            causal=causal,
            window_left=window_left,
            window_right=window_right,
            softcap=softcap,
            causal_alignment=causal_alignment,
            empty_row=empty_row_of(empty_row, m),
            grouping=grouping,
        )
        for name, rows in (("d_q", queries), ("d_k", keys), ("d_v", keys)):
            found[name][rows] = one[name][0].swapaxes(0, 1)
        d_sink += one["d_sink"]
        q_start, k_start = q_start + q_slot, k_start + k_slot
    return found | {"d_sink": d_sink}


def of_item(scale, i):
    """The scale of an item as attention takes it: [1, heads, 1, channels]."""
    return None if scale is None else scale[min(i, len(scale) - 1)][None, :, None]
