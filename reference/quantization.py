"""Quantization of tensors and blocks, and back.

Jacob et al. 2018, Quantization and training of neural networks for efficient integer-arithmetic-only inference,
arXiv:1712.05877, section 2.1, equation 1: r = S (q - Z).
"""

import numpy as np

from .feed_forward import gated_activation
from .norms import rms_norm


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
    x,
    static_scale=None,
    *,
    code_dtype="int8",
    block_rows=1,
    block_columns=None,
    power_of_two=False,
    seed=None,
    power_rounding="up",
):
    """The codes [rows, n] of `x`, and a scale for each block [rows / block_rows, n / block_columns].

    Symmetric as in section 3 of Krishnamoorthi 2018, arXiv:1806.08342; a block of zeros has a scale of one, a choice of
    many. Codes of float8_e4m3fn have three bits behind the leading one, and 2 ** -9 between the subnormal numbers.
    With a seed, stochastic rounding as in section 3.1 of Gupta et al. 2015, arXiv:1502.02551. A `static_scale` [1] is
    that of all blocks, and what lies beyond its range saturates.
    """
    rows, n = x.shape
    R, C = block_rows or rows, block_columns or n
    if not np.all(np.isfinite(x)) or x.size == 0 or rows % R or n % C:
        raise ValueError("a matrix of whole blocks of finite numbers")
    if static_scale is not None and not np.all(static_scale > 0):
        raise ValueError("a scale above zero")
    last = {"int8": 127.0, "float8_e4m3fn": 448.0}[code_dtype]
    u = None if seed is None else np.random.default_rng(seed).random(x.shape)
    codes, scale = np.zeros(x.shape), np.ones((rows // R, n // C))
    for i in range(rows // R):
        for j in range(n // C):
            own = slice(i * R, (i + 1) * R), slice(j * C, (j + 1) * C)
            s = np.abs(x[own]).max() / last or 1.0
            if power_of_two:
                s = 2.0 ** (np.ceil(np.log2(s)) if power_rounding == "up" else np.rint(np.log2(s)))
                if power_rounding in ("floored", "even", "ceiled") and x[own].any():
                    e = np.log2(np.abs(x[own]).max())
                    bits = 6 if last == 127 else 3
                    if power_rounding == "even":  # rounded to so many bits behind the leading one
                        e = np.log2(np.floor(2.0 ** (e - np.floor(e) + bits) + 0.5)) - bits + np.floor(e)
                    s = 2.0 ** ((np.ceil if power_rounding == "ceiled" else np.floor)(e) - np.floor(np.log2(last)))
            s = s if static_scale is None else static_scale[0]
            y = x[own] / s
            with np.errstate(divide="ignore"):
                exponent = np.maximum(np.floor(np.log2(np.abs(y))), -6.0) - 3.0 if last == 448 else 0.0
            steps = y / 2.0**exponent
            steps = np.rint(steps) if u is None else np.floor(steps + u[own])
            codes[own], scale[i, j] = np.clip(steps * 2.0**exponent, -last, last), s
    return {"codes": codes, "scale": scale}


def _coded(y, s, last):
    """Of every number in `y` the code nearest to y / s, in integers up to 127 or in e4m3 up to 448."""
    y = y / s
    with np.errstate(divide="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.abs(y))), -6.0) - 3.0 if last == 448 else 0.0
    return np.clip(np.rint(y / 2.0**exponent) * 2.0**exponent, -last, last)


def _blocks(y, code_dtype, group_size, power_of_two, least_scale, static_scale):
    """The codes [rows, n] of `y`, and a scale for each group of a row [rows, groups]; one for a group of zeros."""
    rows, n = y.shape
    g, last = group_size or n, {"int8": 127.0, "float8_e4m3fn": 448.0}[code_dtype]
    if y.size == 0 or n % g or (static_scale is not None and not np.all(static_scale > 0)):
        raise ValueError("whole groups, and scales above zero")
    codes, scale = np.zeros(y.shape), np.ones((rows, n // g))
    for i in range(rows):
        for j in range(n // g):
            own = i, slice(j * g, (j + 1) * g)
            s = max(np.abs(y[own]).max() / last, least_scale) or 1.0
            s = 2.0 ** np.ceil(np.log2(s)) if power_of_two else s
            scale[i, j] = s if static_scale is None else static_scale[0]
            codes[own] = _coded(y[own], scale[i, j], last)
    return {"codes": codes, "scale": scale}


def normed_blocks(
    x,
    weight,
    residual=None,
    static_scale=None,
    *,
    code_dtype="int8",
    group_size=None,
    power_of_two=False,
    eps=1e-5,
    least_scale=0.0,
):
    """The codes and scales of the normalised rows of `x` [rows, n], to which a residual [rows, n] is added first.

    Zhang and Sennrich 2019, arXiv:1910.07467, equation 4. A static scale [1] is that of everything.
    """
    if not np.all(np.isfinite(x)) or eps <= 0 or weight.shape != x.shape[1:]:
        raise ValueError("finite rows, and a weight for every channel")
    r = x if residual is None else x + residual
    y = rms_norm(r, weight, eps=eps)
    return {**_blocks(y, code_dtype, group_size, power_of_two, least_scale, static_scale), "summed": r}


def activated_blocks(
    x,
    static_scale=None,
    *,
    code_dtype="int8",
    group_size=None,
    power_of_two=False,
    alpha=1.0,
    beta=0.0,
    limit=None,
    least_scale=0.0,
):
    """The codes and scales of a(gate) (partner + beta) [rows, n]; gates and partners are the halves of `x` [rows, 2 n].

    Shazeer 2020, arXiv:2002.05202, equation 6. A static scale [1] is that of everything.
    """
    if not np.all(np.isfinite(x)):
        raise ValueError("finite rows")
    y = gated_activation(x, alpha=alpha, beta=beta, limit=limit)
    return _blocks(y, code_dtype, group_size, power_of_two, least_scale, static_scale)


E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def _float8(codes, mantissa_bits):
    """Of every byte in `codes` the number in e4m3 (3 bits) or e5m2 (2 bits); arXiv:2209.05433, table 1."""
    M, E = 2**mantissa_bits, 2 ** (7 - mantissa_bits)
    b = E // 2 - 1
    table = [m / M * 2.0 ** (1 - b) if e == 0 else (1 + m / M) * 2.0 ** (e - b) for e in range(E) for m in range(M)]
    if mantissa_bits == 3:
        table[-1] = np.nan
    else:
        table[-4:] = [np.inf, np.nan, np.nan, np.nan]
    return np.array(table + [-t for t in table])[codes]


def dequantize_blocks(codes, scales, *, tensor_scale=1.0, block_format="mxfp8_e4m3", swizzled=False, last_scale="nans"):
    """The numbers x = s s_block c of bytes `codes [rows, bytes]` and of the codes of scales [rows, blocks].

    OCP Microscaling Formats 1.0, section 5; of NVFP4 it has 16 numbers, a scale in e4m3, and s is a second one.
    Swizzled scales are tiles of 128 x 4 in the order of cuBLAS: 32 groups of the rows r, r + 32, r + 64 and r + 96.
    """
    codes, scales = np.asarray(codes).astype(int), np.asarray(scales).astype(int)
    size = 16 if block_format == "nvfp4" else 32
    if block_format in ("mxfp4", "nvfp4"):
        nibbles = np.stack([codes & 15, codes >> 4], -1).reshape(len(codes), -1)
        c = np.array(E2M1 + [-t for t in E2M1])[nibbles]
    else:
        c = _float8(codes, 3 if block_format == "mxfp8_e4m3" else 2)
    rows, n = c.shape
    if n % size:
        raise ValueError("whole blocks")
    blocks = n // size
    if swizzled:
        tiles = scales.reshape(-(-rows // 128), -(-blocks // 4), 32, 4, 4)
        scales = tiles.transpose(0, 3, 2, 1, 4).reshape(-(-rows // 128) * 128, -1)[:rows, :blocks]
    if scales.shape != (rows, blocks):
        raise ValueError("a scale for each block")
    if block_format == "nvfp4":
        s = _float8(scales, 3)
    else:
        s = np.where(scales == 255, np.nan if last_scale == "nans" else np.inf, 2.0 ** (scales - 127))
    return (c.reshape(rows, blocks, size) * s[..., None]).reshape(rows, n) * tensor_scale


def dequantize_gguf(data, *, block_format="q4_0"):
    """The numbers of rows of ggml's blocks, `data [rows, bytes]`; ggml-quants.c, dequantize_row_q4_0 and its kin."""
    data = np.asarray(data).astype(np.uint8)
    length = {"q4_0": 18, "q4_1": 20, "q8_0": 34}[block_format]
    if data.shape[1] % length:
        raise ValueError("whole blocks")
    y = []
    for row in data:
        for block in row.reshape(-1, length):
            d = float(block[:2].copy().view("<f2")[0])
            if block_format == "q8_0":
                y += [d * q for q in block[2:].view(np.int8).tolist()]
                continue
            qs = block[-16:].tolist()
            q = [b & 15 for b in qs] + [b >> 4 for b in qs]
            m = float(block[2:4].copy().view("<f2")[0]) if block_format == "q4_1" else -8 * d
            y += [d * t + m for t in q]
    return np.array(y, float).reshape(len(data), -1)


def quantized_matmul(x, codes, scales, offsets, *, bits=4, group_size=32, transpose_weights=True):
    """The product x W.T, or x W, of x [rows, inner] with weights s q + o, by s and o of a group of a row of `codes`.

    Frantar et al. 2022, arXiv:2210.17323, section 4; the zero point z is in the offset o = -s z.
    """
    outs, n = codes.shape
    if codes.max(initial=0) >= 2**bits or n % group_size or scales.shape != offsets.shape:
        raise ValueError("codes of whole groups")
    if scales.shape != (outs, n // group_size) or x.shape[1] != (n if transpose_weights else outs):
        raise ValueError("a scale for each group, and an input for each weight")
    W = np.zeros((outs, n))
    for g in range(n // group_size):
        own = slice(g * group_size, (g + 1) * group_size)
        W[:, own] = scales[:, g, None] * codes[:, own] + offsets[:, g, None]
    return x @ W.T if transpose_weights else x @ W


def scaled_matmul(
    a, b, a_scale, b_scale, bias=0.0, out_scale=None, *, inner_block=None, outs_block=None, output_scale="divides"
):
    """The product (s_a A)(s_b B) + c of codes a [rows, n] and b [n, outs], with scales of stretches and blocks.

    DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2; without `inner_block` scales are of rows and columns.
    With `out_scale [1]`, its codes in float8_e4m3fn; Micikevicius et al. 2022, arXiv:2209.05433, section 3.1.
    """
    rows, n = a.shape
    outs = b.shape[1]
    if 0 in (rows, n, outs) or len(b) != n:
        raise ValueError("matrices with a length in common")
    L, W = inner_block or n, outs_block or 1
    s_a = np.broadcast_to(a_scale, (rows, -(-n // L)))
    s_b = np.broadcast_to(b_scale, (-(-n // L), -(-outs // W)))
    y = np.zeros((rows, outs))
    for i in range(rows):
        for j in range(outs):
            for g in range(-(-n // L)):
                own = slice(g * L, (g + 1) * L)
                y[i, j] += s_a[i, g] * s_b[g, j // W] * np.dot(a[i, own], b[own, j])
    y = y + bias
    return y if out_scale is None else _coded(y, out_scale if output_scale == "divides" else 1 / out_scale, 448.0)
