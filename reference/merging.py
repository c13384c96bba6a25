"""Attention states over parts of the keys, merged to the state over all of them.

Rabe and Staats 2021, Self-attention does not need O(n^2) memory, arXiv:2112.05682, section 2; the name and the empty
state are those of Ye et al. 2025, FlashInfer, arXiv:2501.01005, section 2.2.
"""

import math

import numpy as np


def merge_states(outs, lses, *, lse_base="natural"):
    """The states of every token and head, merged one after the other.

    outs [states, tokens, heads, value_dim], lses [states, tokens, heads].
    Returns out [tokens, heads, value_dim], lse [tokens, heads].
    """
    if not len(outs) or outs.shape[:3] != lses.shape:
        raise ValueError("there is a state, and each has an output and a logsumexp for every token and head")
    unit = math.log(2) if lse_base == "two" else 1.0
    out, lse = np.zeros(outs.shape[1:]), np.full(lses.shape[1:], -math.inf)
    for n, t, h in np.ndindex(lses.shape):
        s, s_n = lse[t, h], lses[n, t, h] * unit
        if s_n == -math.inf:
            continue
        top = max(s, s_n)
        a, b = math.exp(s - top), math.exp(s_n - top)
        out[t, h] = (a * out[t, h] + b * outs[n, t, h]) / (a + b)
        lse[t, h] = top + math.log(a + b)
    return {"out": out, "lse": lse / unit}
