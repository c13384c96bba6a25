"""Attention with relative positions, score by score.

Dai et al. 2019, Transformer-XL, arXiv:1901.02860, section 3.3.
"""

import numpy as np


def relative_attention(q, k, v, r, content_bias, position_bias, *, causal=False, scale=None):
    """`out [batch, heads, q_len, value_dim]` and `lse [batch, heads, q_len]`.

    `q [batch, heads, q_len, head_dim]`, `k [batch, heads, k_len, head_dim]`, `v [batch, heads, k_len, value_dim]`, `r
    [heads, q_len + k_len - 1, head_dim]` by falling distance, and biases [heads, head_dim].
    """
    batch, heads, length, d = q.shape
    keys = k.shape[2]
    if k.shape[3] != d or v.shape[2] != keys or r.shape != (heads, length + keys - 1, d) or keys < length:
        raise ValueError("a value for each key, queries as wide as keys, and a vector for each distance")
    tau = d**-0.5 if scale is None else scale
    out, lse = np.zeros((batch, heads, length, v.shape[3])), np.zeros((batch, heads, length))
    for b, h, i in np.ndindex(batch, heads, length):
        own = i + keys - length
        seen = range(own + 1 if causal else keys)
        u, w = q[b, h, i] + content_bias[h], q[b, h, i] + position_bias[h]
        s = np.array([tau * (u @ k[b, h, j] + w @ r[h, keys - 1 - (own - j)]) for j in seen])
        p = np.exp(s - s.max())
        out[b, h, i] = p / p.sum() @ v[b, h, : len(seen)]
        lse[b, h, i] = s.max() + np.log(p.sum())
    return {"out": out, "lse": lse}
