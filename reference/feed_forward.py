"""The gated feed-forward layer of one token at a time, and its gradients.

Shazeer 2020, GLU variants improve transformer, arXiv:2002.05202, equation 6.
"""

import numpy as np


def swiglu(x, w_gate, w_up, w_down):
    """(SiLU(x W_gate) * x W_up) W_down for x [..., dim]; w_gate and w_up [dim, hidden], w_down [hidden, dim]."""
    fitting(x, w_gate, w_up, w_down)
    out = np.empty(x.shape)
    for token in np.ndindex(x.shape[:-1]):
        gate, up = x[token] @ w_gate, x[token] @ w_up  # [hidden]
        out[token] = (silu(gate) * up) @ w_down
    return out


def swiglu_gradient(x, w_gate, w_up, w_down, d_out):
    """The gradients of sum(out * d_out): `d_x`, `d_w_gate`, `d_w_up` and `d_w_down`, in the shapes of the inputs.

    By the product rule, token by token, with SiLU'(z) = SiLU(z) + sigmoid(z) (1 - SiLU(z)).
    """
    fitting(x, w_gate, w_up, w_down)
    if d_out.shape != x.shape:
        raise ValueError(f"a cotangent of the shape {d_out.shape} for tokens {x.shape}")
    d_x, d_gate, d_up, d_down = (np.zeros(each.shape) for each in (x, w_gate, w_up, w_down))
    for token in np.ndindex(x.shape[:-1]):
        gate, up = x[token] @ w_gate, x[token] @ w_up  # [hidden]
        d_h = w_down @ d_out[token]
        s = silu(gate)
        d_g, d_u = d_h * up * (s + sigmoid(gate) * (1 - s)), d_h * s
        d_x[token] = w_gate @ d_g + w_up @ d_u
        d_gate += np.outer(x[token], d_g)
        d_up += np.outer(x[token], d_u)
        d_down += np.outer(s * up, d_out[token])
    return {"d_x": d_x, "d_w_gate": d_gate, "d_w_up": d_up, "d_w_down": d_down}


def fitting(x, w_gate, w_up, w_down):
    """Refuse matrices that do not fit."""
    dim, hidden = w_gate.shape
    if w_up.shape != (dim, hidden) or w_down.shape != (hidden, dim) or x.shape[-1] != dim or not dim * hidden:
        raise ValueError("the matrices are [dim, hidden] twice and [hidden, dim], and the tokens have dim channels")


def sigmoid(z):
    """1 / (1 + exp(-z)), without an exponential of a large number."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, e) / (1 + e)


def silu(z):
    """Z times its sigmoid, without an exponential of a large number."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, z / (1 + e), z * e / (1 + e))
