"""Positions: turned, added from a formula, added from a table.

Rotary: Su et al. 2021, RoFormer, arXiv:2104.09864, equations 14 and 15.
Sinusoidal: Vaswani et al. 2017, Attention is all you need, section 3.5; the variants of its successors are those of the
authors' own tensor2tensor.
Learned: Gehring et al. 2017, Convolutional sequence to sequence learning, arXiv:1705.03122, section 3.1.
"""

import math

import numpy as np


def rotary(x, positions, *, base=10000.0, interleaved=False, rotary_dim=None, pair_place="kept"):
    """Every pair of the first w channels turned by its angle.

    x [batch, heads, length, dim], positions [length] whole numbers; w is `rotary_dim`, or all of dim.
    """
    batch, heads, length, dim = x.shape
    w = dim if rotary_dim is None else rotary_dim
    if w % 2 or not 0 < w <= dim:
        raise ValueError(f"a head of {dim} channels has no {w} of them in pairs")
    if base <= 0:
        raise ValueError("the base is above zero")
    if len(positions) != length:
        raise ValueError(f"{length} tokens have {len(positions)} positions")
    out = x.copy()
    for p, i in np.ndindex(length, w // 2):
        theta = base ** (-2 * i / w)
        c, s = math.cos(positions[p] * theta), math.sin(positions[p] * theta)
        m, n = (2 * i, 2 * i + 1) if interleaved else (i, i + w // 2)
        a, b = (i, i + w // 2) if pair_place == "parted" else (m, n)
        out[:, :, p, a] = x[:, :, p, m] * c - x[:, :, p, n] * s
        out[:, :, p, b] = x[:, :, p, m] * s + x[:, :, p, n] * c
    return out
