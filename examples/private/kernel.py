"""A kernel of a mechanism that is no part of attnspec, and is specified beside it.

attnspec check examples/private/kernel.py --spec examples/private/specs
"""

import numpy as np

from attnspec import adapter


@adapter("quiet_softmax", framework="numpy", dtypes=("float32", "float64"))
def quiet_softmax_kernel(x):
    """Softmax that may be silent, shifted by the greatest entry or by zero."""
    top = np.maximum(x.max(-1, keepdims=True), 0)
    terms = np.exp(x - top)
    return terms / (np.exp(-top) + terms.sum(-1, keepdims=True))
