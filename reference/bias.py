"""Biases of relative positions by buckets, one pair of positions at a time.

Raffel et al. 2020, arXiv:1910.10683, section 2.1, and the code of T5.
"""

import math

import numpy as np


def bucketed_bias(table, *, q_len, k_len, bidirectional=False, max_distance=128):
    """The bias [heads, q_len, k_len] of the last q_len of k_len positions, from a table [buckets, heads]."""
    buckets, heads = table.shape
    if k_len < q_len or buckets % 4 or max_distance <= buckets // 2:
        raise ValueError("there are as many keys as queries, and distances beyond the buckets of one each")
    n = buckets // 2 if bidirectional else buckets
    bias = np.zeros((heads, q_len, k_len))
    for i, j in np.ndindex(q_len, k_len):
        relative = j - (k_len - q_len + i)
        first = n if bidirectional and relative > 0 else 0
        d = b = abs(relative) if bidirectional else max(-relative, 0)
        if d >= n // 2:
            b = n // 2 + int(math.log(d / (n // 2)) / math.log(max_distance / (n // 2)) * (n - n // 2))
        bias[:, i, j] = table[first + min(b, n - 1)]
    return bias
