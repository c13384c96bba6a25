"""Attention-free transformers, one position and one channel at a time.

Zhai et al. 2021, An attention free transformer, arXiv:2105.14103, section 3: AFT-full, AFT-local, and AFT-simple, which
is the local form without a window.
"""

import numpy as np


def aft_full(q, k, v, w):
    """q, k, v `[batch, length, dim]` and biases w `[length, length]`, a row for each query: out as q."""
    return mixed(q, k, v, w, np.full(w.shape, True))


def aft_local(q, k, v, w, *, window, outside_window="zero_bias"):
    """As `aft_full`, with the biases of positions less than `window` apart alone.

    Outside the window a bias is zero, or with `hidden` the position is not seen at all.
    """
    if window < 0:
        raise ValueError(f"a window of {window} positions")
    t = np.arange(len(w))
    near = np.abs(t[:, None] - t) < window
    return mixed(q, k, v, np.where(near, w, 0.0), near | (outside_window == "zero_bias"))


def aft_simple(q, k, v):
    """q, k, v `[batch, length, dim]`: out as q."""
    n = q.shape[1]
    return mixed(q, k, v, np.zeros((n, n)), np.full((n, n), True))


def mixed(q, k, v, w, seen):
    """The gated mean over the positions that are seen; NaN where there are none."""
    if w.shape != (q.shape[1], k.shape[1]):
        raise ValueError(f"biases {w.shape} do not fit {q.shape[1]} positions")
    Y = np.full(q.shape, np.nan)
    for b, t, c in np.ndindex(q.shape):
        if seen[t].any():
            a = k[b, seen[t], c] + w[t, seen[t]]
            a = np.exp(a - a.max())
            Y[b, t, c] = gate(q[b, t, c]) * (a @ v[b, seen[t], c]) / a.sum()
    return Y


def gate(x):
    """The logistic function."""
    return 1 / (1 + np.exp(-x)) if x >= 0 else np.exp(x) / (1 + np.exp(x))
