"""Attention with linear biases.

Press, Smith and Lewis 2022, Train short, test long, arXiv:2108.12409, section 3.
The slopes for numbers of heads that are no power of two are those of the authors' code, by its recursion.
"""

import math

import numpy as np


def alibi_slopes(*, heads, slopes="interleaved"):
    """The slopes m_1 ... m_n of n heads: `[heads]`."""
    if heads < 1:
        raise ValueError("there is at least one head")
    if slopes == "geometric":
        return np.array([2 ** (-8 * h / heads) for h in range(1, heads + 1)])
    return np.array(published_slopes(heads))


def published_slopes(n):
    """A geometric sequence for a power of two; else that of the power below, and every other slope of the one above."""
    if math.log2(n).is_integer():
        return [2 ** (-8 * h / n) for h in range(1, n + 1)]
    below = 2 ** math.floor(math.log2(n))
    return published_slopes(below) + published_slopes(2 * below)[0::2][: n - below]


def alibi_bias(*, heads, q_len, k_len, slopes="interleaved"):
    """Minus the slope times the distance: `[heads, q_len, k_len]`; the last query stands at the last key."""
    if not 0 < q_len <= k_len:
        raise ValueError("there are at least as many keys as queries, and at least one")
    m = alibi_slopes(heads=heads, slopes=slopes)
    bias = np.empty((heads, q_len, k_len))
    for h, i, j in np.ndindex(bias.shape):
        bias[h, i, j] = -m[h] * abs(i + k_len - q_len - j)
    return bias
