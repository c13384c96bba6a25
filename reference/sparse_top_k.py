"""Attention to the keys with the largest scores, one query at a time.

Zhao et al. 2019, Explicit sparse transformer, arXiv:1912.11637, where a threshold keeps every one of equal scores.
Gupta et al. 2021, Memory-efficient transformers via top-k attention, arXiv:2106.06899, where queries come in chunks.
"""

import math

import numpy as np

from .attention import shares


def sparse_top_k(q, k, v, *, keep, chunks=1, ties="first"):
    """Queries `[batch, heads, q_len, head_dim]`, keys and values `[batch, heads, k_len, ...]`: out as q, as wide as v.

    Every query attends to the `keep` keys that score highest; queries are taken in so many runs, which tells nothing.
    Of equal scores the `first` or the `last` are kept, or `every` one; `open` leaves it open, and here means the first.
    """
    if not 1 <= keep <= k.shape[2] or chunks < 1 or k.shape[2] != v.shape[2]:
        raise ValueError(f"{keep} of {k.shape[2]} keys for {v.shape[2]} values, in {chunks} runs")
    d = q.shape[3]
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for b, h, i in np.ndindex(q.shape[:3]):
        e = np.array([math.fsum(q[b, h, i] * key) for key in k[b, h]])
        kept = kept_keys(e, keep, ties)
        out[b, h, i] = shares(e[kept] / math.sqrt(d), None)[0] @ v[b, h, kept]
    return out


def kept_keys(e, keep, ties):
    """The indices of the keys that are kept."""
    ranked = sorted(range(len(e)), key=lambda j: (-e[j], -j if ties == "last" else j))
    least = e[ranked[keep - 1]]
    return [j for j in range(len(e)) if e[j] >= least] if ties == "every" else ranked[:keep]
