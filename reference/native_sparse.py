"""Native sparse attention: Yuan et al. 2025, arXiv:2502.11089, equations 5, 7, 11 and 12, one query at a time."""

import math

import numpy as np

from .attention import shares


def native_sparse_attention(
    q,
    k,
    v,
    selected,
    compressed_gate=0.0,
    selected_gate=0.0,
    window_gate=0.0,
    *,
    block_size=4,
    window_left=2,
    scale=None,
    empty_list="zeros",
):
    """Gated sum of attention to means of whole blocks, to the keys of named blocks, and to a window.

    q [batch, heads, q_len, head_dim], k [batch, kv_heads, k_len, head_dim], v [batch, kv_heads, k_len, value_dim],
    selected [batch, kv_heads, q_len, count], of which -1 names nothing, and gates [batch, heads, q_len].
    Returns out [batch, heads, q_len, value_dim].
    """
    batch, heads, q_len, d = q.shape
    kv_heads, k_len = k.shape[1:3]
    if k.shape[:3] != v.shape[:3] or k.shape[3] != d:
        raise ValueError("queries, keys and values belong together")
    if selected.shape[:3] != (batch, kv_heads, q_len):
        raise ValueError("every query has a list for each head of keys")
    s = 1 / math.sqrt(d) if scale is None else scale
    gates = [np.broadcast_to(g, (batch, heads, q_len)) for g in (compressed_gate, selected_gate, window_gate)]
    out = np.zeros((batch, heads, q_len, v.shape[3]))
    for b, h, i in np.ndindex(batch, heads, q_len):
        g, t = h // (heads // kv_heads), k_len - q_len + i
        whole = (t + 1) // block_size
        of_blocks = [
            x[b, g, : whole * block_size].reshape(whole, block_size, -1).mean(1) if whole else x[b, g, :0]
            for x in (k, v)
        ]
        listed = [j for n in selected[b, g, i].tolist() if n >= 0 for j in range(n * block_size, (n + 1) * block_size)]
        seen = [j for j in listed if j <= t]
        near = range(max(t - window_left, 0), t + 1)
        branches = [of_blocks, [x[b, g, seen] for x in (k, v)], [x[b, g, near] for x in (k, v)]]
        for gate, (keys, values) in zip(gates, branches, strict=True):
            if len(keys):
                out[b, h, i] += gate[b, h, i] * shares(s * keys @ q[b, h, i], None)[0] @ values
        if not seen and np.ndim(selected_gate) and empty_list == "nans":
            out[b, h, i] = math.nan
    return out
