"""Affine quantization of a tensor, and back.

Jacob et al. 2018, Quantization and training of neural networks for efficient integer-arithmetic-only inference,
arXiv:1712.05877, section 2.1, equation 1: r = S (q - Z).
"""

import numpy as np


def quantize(x, *, bits=8, quantized_range="data", zero_point_form="integer"):
    """The codes of `x [...]`, their scale S and zero point Z; where the range has no width, one choice of many."""
    if not np.all(np.isfinite(x)) or x.size == 0:
        raise ValueError("a range has finite ends")
    if not 1 <= bits <= 24:
        raise ValueError("there are from 1 to 24 bits")
    r_min, r_max = x.min(), x.max()
    if quantized_range == "with_zero":
        r_min, r_max = min(r_min, 0.0), max(r_max, 0.0)
    if r_min == r_max:
        return {"codes": np.zeros(x.shape), "scale": np.float64(1.0), "zero_point": np.float64(0.0)}
    last = 2**bits - 1
    S = (r_max - r_min) / last
    Z = -r_min / S if zero_point_form == "real" else np.rint(-r_min / S)
    return {"codes": np.clip(np.rint(x / S + Z), 0, last), "scale": S, "zero_point": Z}


def dequantize(codes, scale, zero_point):
    """The numbers r = S (q - Z) that `codes [...]` stand for."""
    if np.ndim(scale) or np.ndim(zero_point):
        raise ValueError("a tensor has one scale and one zero point")
    return scale * (codes - zero_point)
