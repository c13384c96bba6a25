"""The gated feed-forward layer of one token at a time.

Shazeer 2020, GLU variants improve transformer, arXiv:2002.05202, equation 6.
"""

import numpy as np


def swiglu(x, w_gate, w_up, w_down):
    """(SiLU(x W_gate) * x W_up) W_down for x [..., dim]; w_gate and w_up [dim, hidden], w_down [hidden, dim]."""
    dim, hidden = w_gate.shape
    if w_up.shape != (dim, hidden) or w_down.shape != (hidden, dim) or x.shape[-1] != dim or not dim * hidden:
        raise ValueError("the matrices are [dim, hidden] twice and [hidden, dim], and the tokens have dim channels")
    out = np.empty(x.shape)
    for token in np.ndindex(x.shape[:-1]):
        gate, up = x[token] @ w_gate, x[token] @ w_up  # [hidden]
        out[token] = (silu(gate) * up) @ w_down
    return out


def silu(z):
    """Z times its sigmoid, without an exponential of a large number."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, z / (1 + e), z * e / (1 + e))
