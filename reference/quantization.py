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


def quantize_blocks(
    x, *, code_dtype="int8", block_rows=1, block_columns=None, power_of_two=False, seed=None, power_rounding="up"
):
    """The codes [rows, n] of `x`, and a scale for each block [rows / block_rows, n / block_columns].

    Symmetric as in section 3 of Krishnamoorthi 2018, arXiv:1806.08342; a block of zeros has a scale of one, a choice of
    many. Codes of float8_e4m3fn have three bits behind the leading one, and 2 ** -9 between the subnormal numbers.
    With a seed, stochastic rounding as in section 3.1 of Gupta et al. 2015, arXiv:1502.02551.
    """
    rows, n = x.shape
    R, C = block_rows or rows, block_columns or n
    if not np.all(np.isfinite(x)) or x.size == 0 or rows % R or n % C:
        raise ValueError("a matrix of whole blocks of finite numbers")
    last = {"int8": 127.0, "float8_e4m3fn": 448.0}[code_dtype]
    u = None if seed is None else np.random.default_rng(seed).random(x.shape)
    codes, scale = np.zeros(x.shape), np.ones((rows // R, n // C))
    for i in range(rows // R):
        for j in range(n // C):
            own = slice(i * R, (i + 1) * R), slice(j * C, (j + 1) * C)
            s = np.abs(x[own]).max() / last or 1.0
            if power_of_two:
                s = 2.0 ** (np.ceil(np.log2(s)) if power_rounding == "up" else np.rint(np.log2(s)))
            y = x[own] / s
            with np.errstate(divide="ignore"):
                exponent = np.maximum(np.floor(np.log2(np.abs(y))), -6.0) - 3.0 if last == 448 else 0.0
            steps = y / 2.0**exponent
            steps = np.rint(steps) if u is None else np.floor(steps + u[own])
            codes[own], scale[i, j] = np.clip(steps * 2.0**exponent, -last, last), s
    return {"codes": codes, "scale": scale}
