"""What decays within a chunk add up to, number by number: Dao and Gu 2024, arXiv:2405.21060, section 6."""

import numpy as np


def chunk_cumsum(x, *, chunk_size, reverse=False, scale=1.0):
    """Sums from the first token of a chunk on, or with `reverse` to its last: x and out [batch, heads, length]."""
    if chunk_size < 1:
        raise ValueError("a chunk has a token")
    out, length = np.empty(x.shape), x.shape[2]
    for t in range(length):
        first = t // chunk_size * chunk_size
        last = min(first + chunk_size, length)
        out[:, :, t] = scale * (x[:, :, t:last] if reverse else x[:, :, first : t + 1]).sum(2)
    return out


def segment_sums(x):
    """The sums from behind place j up to place i, minus infinity for later j: x [rows, n], the result [rows, n, n]."""
    rows, n = x.shape
    if np.any(x == np.inf):
        raise ValueError("every number is below infinity")
    sums = np.full((rows, n, n), -np.inf)
    for i in range(n):
        for j in range(i + 1):
            sums[:, i, j] = x[:, j + 1 : i + 1].sum(1)
    return sums
