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


def bucketed_bias_gradient(table, d_out, *, q_len, k_len, bidirectional=False, max_distance=128):
    """The gradient of the table [buckets, heads], for that of the bias, d_out [heads, q_len, k_len].

    The bias is linear, so that each number of the table has the product of d_out with what the table that has a one
    there, and zeros elsewhere, makes.
    """
    if d_out.shape != (table.shape[1], q_len, k_len):
        raise ValueError("there is one entry of the cotangent for every entry")
    buckets = np.repeat(np.arange(len(table))[:, None] * 1.0, table.shape[1], 1)
    bucket = bucketed_bias(buckets, q_len=q_len, k_len=k_len, bidirectional=bidirectional, max_distance=max_distance)
    return {"d_table": np.array([(d_out * (bucket == n)).sum((1, 2)) for n in range(len(table))])}


def window_bias(table, *, height, width):
    """The bias [heads, places, places] of a window of an image: Liu et al. 2021, arXiv:2103.14030, section 3.2.

    The table [(2 height - 1) (2 width - 1), heads] has the offsets of the query less the key.
    """
    if len(table) != (2 * height - 1) * (2 * width - 1):
        raise ValueError("the table has a number for every offset of the window")
    offsets = table.reshape(2 * height - 1, 2 * width - 1, -1)
    bias = np.zeros((table.shape[1], height, width, height, width))
    for r, c, s, d in np.ndindex(height, width, height, width):
        bias[:, r, c, s, d] = offsets[height - 1 + r - s, width - 1 + c - d]
    return bias.reshape(-1, height * width, height * width)


def window_bias_gradient(table, d_out, *, height, width):
    """The gradient of the table [(2 height - 1) (2 width - 1), heads], for d_out [heads, places, places]."""
    places = height * width
    if len(table) != (2 * height - 1) * (2 * width - 1) or d_out.shape != (table.shape[1], places, places):
        raise ValueError("the table has a number for every offset, and the cotangent an entry for every pair of places")
    d_table = np.zeros((2 * height - 1, 2 * width - 1, table.shape[1]))
    pairs = d_out.reshape(-1, height, width, height, width)
    for r, c, s, d in np.ndindex(height, width, height, width):
        d_table[height - 1 + r - s, width - 1 + c - d] += pairs[:, r, c, s, d]
    return {"d_table": d_table.reshape(table.shape)}
