"""Attention that forgets, one query at a time, with gates multiplied from token to token.

Lin, Nikishin, He and Courville 2025, Forgetting Transformer, arXiv:2503.02130, section 3: F_ij is the product of the
gates f_l, l from j + 1 to i, and o_i = sum_j F_ij exp(s q_i k_j) v_j / sum_j F_ij exp(s q_i k_j).
"""

import math

import numpy as np


def forgetting_attention(q, k, v, gate, *, scale=None, window_left=None, grouping="block"):
    """The average of the values, by weights that fade with the gates between key and query.

    q [batch, heads, length, head_dim], k and v [batch, kv_heads, length, channels], gate [batch, heads, length], which
    are logarithms. Returns out [batch, heads, length, value_dim].
    """
    checked(q, k, v, gate)
    out = np.empty((*q.shape[:3], v.shape[3]))
    for b, h, i in np.ndindex(q.shape[:3]):
        keys, weights, g = weighed(q, k, gate, b, h, i, scale, window_left, grouping)
        out[b, h, i] = weights @ v[b, g, keys]
    return out


def forgetting_attention_gradient(q, k, v, gate, d_out, *, scale=None, window_left=None, grouping="block"):
    """The gradients of sum(out * d_out): d_q, d_k, d_v and d_gate, in the shapes of what they belong to.

    A gate g_l is in the scores of all queries i >= l and keys j < l.
    """
    checked(q, k, v, gate)
    if d_out.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError(f"a gradient of the shape {d_out.shape} for queries {q.shape} and values {v.shape}")
    s = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    d_q, d_k, d_v, d_gate = (np.zeros(x.shape) for x in (q, k, v, gate))
    for b, h, i in np.ndindex(q.shape[:3]):
        keys, weights, g = weighed(q, k, gate, b, h, i, scale, window_left, grouping)
        d_weights = v[b, g, keys] @ d_out[b, h, i]
        d_scores = weights * (d_weights - weights @ d_weights)
        d_q[b, h, i] = s * d_scores @ k[b, g, keys]
        for j, p, d_score in zip(keys, weights, d_scores, strict=True):
            d_k[b, g, j] += s * d_score * q[b, h, i]
            d_v[b, g, j] += p * d_out[b, h, i]
            d_gate[b, h, j + 1 : i + 1] += d_score
    return {"d_q": d_q, "d_k": d_k, "d_v": d_v, "d_gate": d_gate}


def packed_forgetting_attention(q, k, v, gate, lens, *, scale=None, window_left=None, grouping="block"):
    """Each item by itself: q [tokens, heads, head_dim], k and v [tokens, kv_heads, channels], gate [tokens, heads].

    Returns out [tokens, heads, value_dim].
    """
    out = np.empty((*q.shape[:2], v.shape[2]))
    for part in parts(lens, q, gate):
        arrays = (x[part].swapaxes(0, 1)[None] for x in (q, k, v, gate))
        found = forgetting_attention(*arrays, scale=scale, window_left=window_left, grouping=grouping)
        out[part] = found[0].swapaxes(0, 1)
    return out


def packed_forgetting_attention_gradient(q, k, v, gate, lens, d_out, *, scale=None, window_left=None, grouping="block"):
    """The gradients of each item by itself: d_q, d_k, d_v and d_gate, in the shapes of what they belong to."""
    if d_out.shape != (*q.shape[:2], v.shape[2]):
        raise ValueError(f"a gradient of the shape {d_out.shape} for queries {q.shape} and values {v.shape}")
    found = {
        "d_q": np.zeros(q.shape),
        "d_k": np.zeros(k.shape),
        "d_v": np.zeros(v.shape),
        "d_gate": np.zeros(gate.shape),
    }
    for part in parts(lens, q, gate):
        arrays = (x[part].swapaxes(0, 1)[None] for x in (q, k, v, gate, d_out))
        own = forgetting_attention_gradient(*arrays, scale=scale, window_left=window_left, grouping=grouping)
        for name, x in own.items():
            found[name][part] = x[0].swapaxes(0, 1)
    return found


def parts(lens, q, gate):
    """The tokens of each item that has any."""
    if sum(lens) != len(q) or gate.shape != q.shape[:2]:
        raise ValueError(f"items of {lens} tokens and gates {gate.shape} for queries {q.shape}")
    ends = [int(sum(lens[: n + 1])) for n in range(len(lens))]
    return [slice(end - int(n), end) for end, n in zip(ends, lens, strict=True) if n]


def weighed(q, k, gate, b, h, i, scale, window_left, grouping):
    """The keys that query i sees, their weights, and the head that they are of."""
    heads, kv_heads = q.shape[1], k.shape[1]
    g = h // (heads // kv_heads) if grouping == "block" else h % kv_heads
    s = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    keys = [j for j in range(i + 1) if window_left is None or i - j <= window_left]
    e = np.array([s * q[b, h, i] @ k[b, g, j] + sum(gate[b, h, j + 1 : i + 1]) for j in keys])
    terms = np.exp(e - max(e))
    return keys, terms / sum(terms), g


def checked(q, k, v, gate):
    """Refuse arrays that do not fit."""
    if gate.shape != q.shape[:3] or k.shape[:3] != v.shape[:3] or k.shape[2:] != q.shape[2:] or q.shape[1] % k.shape[1]:
        raise ValueError(f"gates {gate.shape} for queries {q.shape}, keys {k.shape} and values {v.shape}")
