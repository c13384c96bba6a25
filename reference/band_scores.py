"""The scores of a sliding window, stored as a band.

Beltagy et al. 2020, Longformer: the long-document transformer, arXiv:2004.05150, section 3.2 and appendix A.
"""

import numpy as np


def band_scores(q, k, *, window, beyond_ends="minus_infinity"):
    """q, k `[batch, length, heads, head_dim]`: scores `[batch, length, heads, 2 * window + 1]`.

    Column c is the product with the key `c - window` positions further on; beyond the ends there is none.
    """
    if window < 1 or q.shape != k.shape:
        raise ValueError(f"a window of {window} over queries {q.shape} and keys {k.shape}")
    batch, length, heads, _ = q.shape
    scores = np.full((batch, length, heads, 2 * window + 1), -np.inf if beyond_ends == "minus_infinity" else 0.0)
    for b, i, h, c in np.ndindex(scores.shape):
        j = i + c - window
        if 0 <= j < length:
            scores[b, i, h, c] = q[b, i, h] @ k[b, j, h]
    return scores
