"""Softmax, of scores that are scaled and masked too.

Bridle 1990, Probabilistic interpretation of feedforward classification network outputs;
Blanchard, Higham and Higham 2021, Accurately computing the log-sum-exp and softmax functions.
The masks are those of Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3, and the slopes those of Press, Smith and
Lewis 2022, arXiv:2108.12409, section 3, for any largest exponent.
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


def masked_softmax(
    x,
    mask=True,
    bias=0.0,
    *,
    scale=1.0,
    causal=False,
    max_bias=0.0,
    empty_row="zeros",
    causal_alignment="bottom_right",
):
    """Shares of the keys that are seen, for scores `x [batch, heads, q_len, k_len]`: `p`, of the same shape.

    `mask` and `bias` have that shape or are broadcast to it; the mask is true where a key is seen.
    """
    batch, heads, q_len, k_len = x.shape
    if heads < 1 or max_bias < 0:
        raise ValueError("there is a head, and no slope grows")
    mask, bias = np.broadcast_to(mask, x.shape), np.broadcast_to(bias, x.shape)
    first = k_len - q_len if causal_alignment == "bottom_right" else 0
    p = np.zeros(x.shape)
    for b, h, i in np.ndindex(batch, heads, q_len):
        seen = [j for j in range(k_len) if mask[b, h, i, j] and not (causal and j > first + i)]
        s = scale * x[b, h, i] + slope_of_head(h + 1, heads, max_bias) * bias[b, h, i]
        if all(s[j] == -np.inf for j in seen):
            p[b, h, i] = softmax_of_row(np.full(k_len, -np.inf), empty_row)
        else:
            p[b, h, i, seen] = softmax_of_row(s[seen], empty_row)
    return p


def slope_of_head(h, n, max_bias):
    """The slope of the head h of n, counted from one, which is 2 ** -max_bias for the last of a power of two."""
    below = 2 ** int(np.log2(n))
    if max_bias == 0:
        return 1.0
    return 2.0 ** (-max_bias * h / below) if h <= below else 2.0 ** (-max_bias * (2 * (h - below) - 1) / (2 * below))
