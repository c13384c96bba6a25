"""Softmax.

Bridle 1990, Probabilistic interpretation of feedforward classification network outputs;
Blanchard, Higham and Higham 2021, Accurately computing the log-sum-exp and softmax functions.
"""

import numpy as np


def softmax(x, *, empty_row="zeros"):
    """Shares of the exponentials along the last axis of `x [..., n]`: `p [..., n]`."""
    p = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        p[row] = softmax_of_row(x[row], empty_row)
    return p


def softmax_of_row(x, empty_row):
    """Algorithm 3.2 of Blanchard et al.; `empty_row` says what a row of minus infinities gives."""
    if np.all(x == -np.inf):
        return np.full(len(x), {"zeros": 0.0, "nans": np.nan, "mean_value": 1 / max(len(x), 1)}[empty_row])
    w = np.exp(x - x.max())
    return w / w.sum()
