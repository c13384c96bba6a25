"""Differential attention: Ye et al. 2024, Differential transformer, arXiv:2410.05258, section 2.1."""

import math

import numpy as np


def _softmax(s):
    """exp(s_j) / sum over j exp(s_j)."""
    e = np.exp(s - s.max())
    return e / e.sum()


def differential_attention(
    q, k, v, lambda_q1, lambda_k1, lambda_q2, lambda_k2, weight=1.0, *, depth=0, causal=False, eps=1e-5, head_pairs
):
    """(1 - lambda_init) RMS(o), o_i = sum over j (a_1j - lambda a_2j) v_j: [batch, heads, q_len, value_dim].

    q [batch, 2 heads, q_len, d], k [batch, 2 kv_heads, k_len, d], v [batch, kv_heads, k_len, value_dim].
    The paper counts layers from one: depth is l - 1. Those of a head are neighbours, or one of each half.
    """
    batch, maps, length, d = q.shape
    heads, (kv_heads, keys) = maps // 2, v.shape[1:3]
    if k.shape != (batch, 2 * kv_heads, keys, d) or keys < length:
        raise ValueError("a value for each pair of keys, and queries as wide as keys")
    lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
    lam = math.exp(lambda_q1 @ lambda_k1) - math.exp(lambda_q2 @ lambda_k2) + lambda_init
    out = np.zeros((batch, heads, length, v.shape[3]))
    for b, h, i in np.ndindex(batch, heads, length):
        g = h // (heads // kv_heads)
        n = keys - length + i + 1 if causal else keys
        pairs = [
            (2 * h + p, 2 * g + p) if head_pairs == "neighbours" else (h + p * heads, g + p * kv_heads) for p in (0, 1)
        ]
        a1, a2 = (_softmax(k[b, n2, :n] @ q[b, n1, i] / math.sqrt(d)) for n1, n2 in pairs)
        o = (a1 - lam * a2) @ v[b, g, :n]
        out[b, h, i] = (1 - lambda_init) * weight * o / np.sqrt(np.mean(o**2) + eps)
    return out
