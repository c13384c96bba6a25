"""Linformer: attention to a few mixtures of the keys and values.

Wang et al. 2020, Linformer: self-attention with linear complexity, arXiv:2006.04768, section 4.
"""

import math

import numpy as np

from .attention import shares


def linformer(q, k, v, e, f):
    """q, k, v `[batch, heads, length, dim]` and the projections e, f `[proj, length]`: out as q."""
    if e.shape != f.shape or e.shape[1] != k.shape[2] or not len(e):
        raise ValueError(f"projections {e.shape} and {f.shape} do not fit {k.shape[2]} positions")
    d = q.shape[3]
    out = np.zeros(q.shape)
    for b, h in np.ndindex(q.shape[:2]):
        K, V = e @ k[b, h], f @ v[b, h]  # [proj, dim]
        for i, query in enumerate(q[b, h]):
            P, _ = shares(K @ query / math.sqrt(d), None)  # [proj]
            out[b, h, i] = P @ V
    return out
