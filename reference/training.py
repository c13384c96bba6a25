"""What training is told and what it costs: which parameters are decayed, and the operations of one token.

Loshchilov and Hutter 2019, arXiv:1711.05101. Chowdhery et al. 2022, PaLM, arXiv:2204.02311, appendix B.
"""

import numpy as np


def decay_groups(ranks):
    """Whether each parameter, given its number of axes, is decayed: `[n]`."""
    if any(rank < 0 for rank in ranks):
        raise ValueError("no parameter has fewer axes than none")
    return np.array([bool(rank >= 2) for rank in ranks], bool)


def model_flops(
    *,
    layers,
    heads,
    dim,
    hidden,
    vocab,
    length,
    kv_heads=None,
    head_dim=None,
    gated=True,
    counted="products",
):
    """6 N + 12 L H Q T, with N summed matrix by matrix."""
    L, H, T, G = layers, heads, length, heads if kv_heads is None else kv_heads
    if min(L, H, T, G, dim, hidden, vocab) < 1 or H % G or (head_dim is None and dim % H):
        raise ValueError("sizes are positive, kv_heads divide heads, and heads divide the width")
    Q = dim // H if head_dim is None else head_dim
    if Q < 1:
        raise ValueError("a head has at least one channel")
    shapes = [(vocab, dim)]  # the output, and the embedding tied to it
    for _ in range(L):
        shapes += [(dim, H * Q), (dim, G * Q), (dim, G * Q), (H * Q, dim)]
        shapes += [(dim, hidden)] * (2 if gated else 1) + [(hidden, dim)]
    N = sum(rows * columns for rows, columns in shapes)
    if counted == "all_parameters":
        N += dim * (2 * L + 1)
    return 6 * N + 12 * L * H * Q * T
