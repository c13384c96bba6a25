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


def log_softmax(x):
    """Logarithms of the shares along the last axis of `x [..., n]`: `log_p [..., n]`, by Blanchard et al., section 2.

    A row of minus infinities gives NaN.
    """
    if not x.shape[-1]:
        raise ValueError("a row has entries")
    log_p = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        a = x[row].max()
        log_p[row] = x[row] - a - np.log(np.sum(np.exp(x[row] - a))) if a > -np.inf else np.nan
    return log_p


def softmax_of_row(x, empty_row):
    """Algorithm 3.2 of Blanchard et al.; `empty_row` says what a row of minus infinities gives."""
    if np.all(x == -np.inf):
        return np.full(len(x), {"zeros": 0.0, "nans": np.nan, "mean_value": 1 / max(len(x), 1)}[empty_row])
    w = np.exp(x - x.max())
    return w / w.sum()
