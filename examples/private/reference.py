"""The second witness of `quiet_softmax`, in float64: a function of the operator's name, in the most obvious way.

attnspec audit --spec examples/private/specs --reference examples/private/reference.py
"""

import numpy as np


def quiet_softmax(x):
    """Shares of the exponentials of `x [..., n]` and of one more entry of zero: `p [..., n]`."""
    p = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        terms = np.exp([*x[row] - max(x[row].max(), 0), -max(x[row].max(), 0)])
        p[row] = terms[:-1] / terms.sum()
    return p
