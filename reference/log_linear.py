"""Log-linear attention: Guo et al. 2025, arXiv:2506.04761, section 3.2, as states that are merged in a Fenwick tree."""

import math

import numpy as np


def log_linear_attention(q, k, v, gate, level_scales, *, scale=None):
    """Linear attention with a state for each level of a Fenwick tree, and a scale for each.

    q, k [batch, key_heads, length, key_dim], v [batch, heads, length, value_dim], gate [batch, heads, length],
    level_scales [batch, heads, length, levels]. Returns out, like v.
    """
    batch, key_heads, length, d = k.shape
    heads, levels = v.shape[1], level_scales.shape[3]
    if v.shape[2] != length:
        raise ValueError("every key has a value")
    s = 1 / math.sqrt(d) if scale is None else scale
    out = np.zeros(v.shape)
    for b, h in np.ndindex(batch, heads):
        g, states = h // (heads // key_heads), np.zeros((levels + 1, d, v.shape[3]))
        for t in range(length):
            states *= math.exp(gate[b, h, t])
            if t:  # before token t the levels up to that of its lowest bit are merged into the next one
                merged = (t & -t).bit_length()
                states[merged] += states[:merged].sum(0)
                states[:merged] = 0
            states[0] = np.outer(k[b, g, t], v[b, h, t])
            for level in range(levels):
                out[b, h, t] += s * level_scales[b, h, t, level] * (q[b, g, t] @ states[level])
    return out
