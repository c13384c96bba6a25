"""Dropout.

Srivastava et al. 2014, Dropout: a simple way to prevent neural networks from overfitting, sections 4 and 10.
"""

import numpy as np


def dropout(x, *, p, seed, training=True):
    """Entries of `x` at zero with probability p, the others divided by 1 - p; `x` itself outside training."""
    if not 0 <= p <= 1:
        raise ValueError("p is a share")
    if not training:
        return x
    b = np.random.default_rng(seed).random(x.shape) >= p
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b, x / (1 - np.float64(p)), 0.0)
