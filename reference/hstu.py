"""Pointwise attention of hierarchical sequential transduction units.

Zhai et al. 2024, Actions speak louder than words: trillion-parameter sequential transducers for generative
recommendations, arXiv:2402.17152, equation 2.
"""

import numpy as np


def hstu_attention(q, k, v, lens, targets=0, *, alpha, max_len, causal=True, window_left=None, context=0):
    """What tokens read, like v: q, k [tokens, heads, head_dim], v [tokens, heads, value_dim], `lens` [items].

    The last `targets` [items] tokens of an item are its targets, and the first `context` its context.
    """
    if k.shape != q.shape or len(v) != len(k):
        raise ValueError("queries as wide as keys, and a value for every key")
    out, start = np.zeros(v.shape), 0
    for length, late in zip(lens, np.broadcast_to(targets, np.shape(lens)), strict=True):
        first_target = length - late
        for i in range(length):
            for j in range(length):
                if sees(i, j, first_target, causal, window_left, context):
                    score = alpha * np.sum(q[start + i] * k[start + j], -1, keepdims=True)
                    out[start + i] += score / (1 + np.exp(-score)) / max_len * v[start + j]
        start += length
    return out


def sees(i, j, first_target, causal, window_left, context):
    """Whether token i of an item sees token j."""
    if i < context and j < first_target:
        return True
    a, b = (max(min(x, first_target) - max(context - 1, 0), 0) for x in (i, j))
    apart = a - b if causal else abs(a - b)
    return (i == j or apart > 0) and (window_left is None or abs(a - b) <= window_left)


def hstu_attention_gradient(
    q, k, v, lens, d_out, targets=0, *, alpha, max_len, causal=True, window_left=None, context=0
):
    """The gradients of sum(out * d_out) with respect to q, k and v, pair by pair of tokens."""
    if k.shape != q.shape or len(v) != len(k):
        raise ValueError("queries as wide as keys, and a value for every key")
    d_q, d_k, d_v, start = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape), 0
    for length, late in zip(lens, np.broadcast_to(targets, np.shape(lens)), strict=True):
        for i, j in np.ndindex(length, length):
            if sees(i, j, length - late, causal, window_left, context):
                a, b = start + i, start + j
                x = alpha * np.sum(q[a] * k[b], -1, keepdims=True)
                s = 1 / (1 + np.exp(-x))
                flow = np.sum(d_out[a] * v[b], -1, keepdims=True) * (s + x * s * (1 - s)) / max_len
                d_q[a] += alpha * flow * k[b]
                d_k[b] += alpha * flow * q[a]
                d_v[b] += x * s / max_len * d_out[a]
        start += length
    return {"d_q": d_q, "d_k": d_k, "d_v": d_v}
