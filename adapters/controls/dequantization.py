"""Right, but different, as in `controls_attention`: numbers of blocks by tables, by bits, and one after the other."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def in_rows(scales: Any, rows: int, blocks: int) -> Any:
    """Scales in the order of tensor cores as [rows, blocks]."""
    tiles = scales.reshape(-(-rows // 128), -(-blocks // 4), 32, 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(-(-rows // 128) * 128, -1)[:rows, :blocks]


@adapter("dequantize_blocks", dtypes=DTYPES, conventions={"last_scale": "nans"})
def control_blocks_by_tables(
    codes: Any, scales: Any, tensor_scale: Any = None, *, block_format: str = "mxfp8_e4m3", swizzled: bool = False
) -> Any:
    """Tables of all bytes, and scales that are multiplied with each other first."""
    import torch

    every = torch.arange(256, dtype=torch.uint8)
    kinds = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2}
    if block_format in kinds:
        numbers = every.view(kinds[block_format]).float()[codes.long()]
    else:
        table = torch.tensor(E2M1)
        numbers = torch.stack((table[every.long() & 15], table[every.long() >> 4]), -1)[codes.long()].flatten(1)
    size = 16 if block_format == "nvfp4" else 32
    if swizzled:
        scales = in_rows(scales, len(codes), numbers.shape[1] // size)
    step = scales.contiguous().view(torch.float8_e4m3fn if block_format == "nvfp4" else torch.float8_e8m0fnu).float()
    if tensor_scale is not None:
        step = step * tensor_scale
    return (numbers.unflatten(1, (-1, size)) * step[..., None]).flatten(1)


@adapter("dequantize_blocks", framework="numpy", dtypes=DTYPES, conventions={"last_scale": "infinite"})
def control_blocks_by_exponents(
    codes: Any, scales: Any, tensor_scale: Any = None, *, block_format: str = "mxfp8_e4m3", swizzled: bool = False
) -> Any:
    """Exponents of codes and scales added up, number by number in double precision."""
    import numpy as np

    four, size = block_format in ("mxfp4", "nvfp4"), 16 if block_format == "nvfp4" else 32
    exponents, bits = (2, 1) if four else (5, 2) if block_format == "mxfp8_e5m2" else (4, 3)
    rows, n = len(codes), codes.shape[1] * (2 if four else 1)
    if n % size:
        raise ValueError("blocks are whole")
    x, flat, across = np.zeros((rows, n)), scales.ravel(), -(-(n // size) // 4)
    factor = 1.0 if tensor_scale is None else float(tensor_scale[0])
    for r, i in np.ndindex(rows, n):
        code = int(codes[r, i // 2]) >> 4 * (i % 2) & 15 if four else int(codes[r, i])
        block = i // size
        at = ((r // 128 * across + block // 4) * 32 + r % 32) * 16 + r % 128 // 32 * 4 + block % 4
        scale = int(flat[at if swizzled else r * (n // size) + block])
        size_, power = _parts(code, exponents, bits, four)
        step, shift = _parts(scale, 4, 3, False) if block_format == "nvfp4" else (1.0, scale - 127)
        x[r, i] = np.ldexp(size_ * step * factor, power + shift)
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


def _parts(code: int, exponents: int, bits: int, plain: bool) -> tuple[float, int]:
    """The signed significand of a code, and its power of two."""
    exponent, fraction = code >> bits & (1 << exponents) - 1, code & (1 << bits) - 1
    sign = -1.0 if code >> exponents + bits else 1.0
    last = exponent == (1 << exponents) - 1
    if not plain and last and (bits == 2 or fraction == (1 << bits) - 1):
        return (sign * float("inf") if bits == 2 and fraction == 0 else float("nan")), 0
    bias = (1 << exponents - 1) - 1
    leading = float(exponent > 0)
    return sign * (leading + fraction / (1 << bits)), max(exponent, 1) - bias


LENGTHS = {"q4_0": 18, "q4_1": 20, "q8_0": 34}
"""The bytes of a block of 32 numbers of ggml."""


@adapter("dequantize_gguf", dtypes=DTYPES)
def control_gguf_by_views(data: Any, *, block_format: str = "q4_0") -> Any:
    """Scales viewed as float16; of q4_0 the middle is added as a least number."""
    import torch

    blocks = data.reshape(len(data), -1, LENGTHS[block_format])
    scale = blocks[..., :2].contiguous().view(torch.float16).float()
    if block_format == "q8_0":
        return (scale * blocks[..., 2:].contiguous().view(torch.int8).float()).flatten(1)
    least = blocks[..., 2:4].contiguous().view(torch.float16).float() if block_format == "q4_1" else -8 * scale
    kept = blocks[..., -16:]
    return torch.addcmul(least, scale, torch.cat((kept & 15, kept >> 4), -1).float()).flatten(1)


@adapter("dequantize_gguf", framework="numpy", dtypes=DTYPES)
def control_gguf_by_struct(data: Any, *, block_format: str = "q4_0") -> Any:
    """Block after block, each read as a record, in double precision."""
    import struct

    import numpy as np

    layout = {"q4_0": "<e16B", "q4_1": "<ee16B", "q8_0": "<e32b"}[block_format]
    rows = []
    for row in data:
        numbers: list[float] = []
        for record in struct.iter_unpack(layout, row.tobytes()):
            scale, least = record[0], record[1] if block_format == "q4_1" else 0.0
            codes = record[2 if block_format == "q4_1" else 1 :]
            if block_format != "q8_0":
                middle = 8 if block_format == "q4_0" else 0
                codes = [code % 16 - middle for code in codes] + [code // 16 - middle for code in codes]
            numbers += [scale * code + least for code in codes]
        rows.append(numbers)
    return np.array(rows, np.float32)
