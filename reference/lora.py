"""Low-rank adapters of the tokens of a batch: Hu et al. 2021, LoRA, arXiv:2106.09685, section 4.1, equation 3."""

import numpy as np


def lora_matmul(x, a, b, adapter, base=0.0, scales=1.0, ranks=None, *, widths=None):
    """z_t + s_i B_i (A_i x_t) for the adapter i of each token, and z_t where that is -1: [tokens, outs].

    x [tokens, dim], a [adapters, slices, rank, dim], b [adapters, outs, rank], adapter [tokens], base [tokens, outs],
    scales and ranks [adapters]; slices of `widths` outputs have a first matrix each.
    """
    adapters, slices, rank, dim = a.shape
    outs = b.shape[1]
    widths = [outs] if widths is None else [int(width) for width in widths]
    if len(widths) != slices or sum(widths) != outs or x.shape != (len(adapter), dim):
        raise ValueError("every token has an adapter and its channels, and every slice a width")
    out = np.zeros((len(x), outs)) + base
    s = np.broadcast_to(scales, adapters)
    for t, i in enumerate(adapter):
        if i < 0:
            continue
        r, start = rank if ranks is None or np.ndim(ranks) == 0 else int(ranks[i]), 0
        for k, width in enumerate(widths):
            out[t, start : start + width] += s[i] * b[i, start : start + width, :r] @ (a[i, k, :r] @ x[t])
            start += width
    return out
