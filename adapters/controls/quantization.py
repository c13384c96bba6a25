"""Right, but different, as in `controls_attention`: affine quantization in other orders of the same steps."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def answer(codes: Any, scale: Any, zero_point: Any) -> Any:
    """The outputs by name."""
    return {"codes": codes, "scale": scale, "zero_point": zero_point}


@adapter("quantize", dtypes=DTYPES, conventions={"quantized_range": "data", "zero_point_form": "integer"})
def control_quantize_reciprocal(x: Any, *, bits: int = 8) -> Any:
    """The reciprocal of the scale, multiplied; the zero point is added before rounding."""
    import torch

    y, top = x.float(), 2**bits - 1
    low, high = y.min(), y.max()
    scale = (high - low) / top if high > low else torch.ones(())
    inverse = 1 / scale
    zero_point = torch.round(-low * inverse)
    return answer((y * inverse + zero_point).round().clamp(0, top).to(torch.int32), scale, zero_point.to(torch.int32))


@adapter("quantize", dtypes=DTYPES, conventions={"quantized_range": "with_zero", "zero_point_form": "integer"})
def control_quantize_double(x: Any, *, bits: int = 8) -> Any:
    """Everything in double precision; the zero point is counted from the greatest number."""
    import torch

    y, top = x.double(), 2**bits - 1
    low, high = float(y.amin().clamp(max=0.0)), float(y.amax().clamp(min=0.0))
    scale = (high - low) / top or 1.0
    zero_point = top - round(high / scale)
    return answer((torch.round(y / scale) + zero_point).clamp(0, top).to(torch.int64), scale, zero_point)


@adapter("quantize", dtypes=DTYPES, conventions={"quantized_range": "data", "zero_point_form": "real"})
def control_quantize_from_low(x: Any, *, bits: int = 8) -> Any:
    """Steps counted from the least number."""
    import torch

    y, top = x.float(), 2**bits - 1
    low, width = y.min(), y.max() - y.min()
    scale = torch.where(width > 0, width / top, torch.ones(()))
    codes = torch.floor((y - low) / scale + 0.5).clamp(0, top).to(torch.int64)
    return answer(codes, scale, -low / scale)


@adapter("dequantize", dtypes=DTYPES)
def control_dequantize_difference(codes: Any, scale: Any, zero_point: Any) -> Any:
    """The difference first, in single precision."""
    return ((codes.float() - zero_point.float()) * scale.float()).to(scale.dtype)


@adapter("dequantize", dtypes=DTYPES)
def control_dequantize_offset(codes: Any, scale: Any, zero_point: Any) -> Any:
    """A factor and an offset, as a fused multiply and add takes them."""
    factor = scale.float()
    return (codes.float() * factor + -(factor * zero_point.float())).to(scale.dtype)


@adapter("dequantize", dtypes=DTYPES)
def control_dequantize_table(codes: Any, scale: Any, zero_point: Any) -> Any:
    """A table of what every code stands for."""
    import torch

    if codes.numel() == 0:
        return torch.zeros(codes.shape, dtype=scale.dtype)
    table = (torch.arange(int(codes.max()) + 1).double() - zero_point.double()) * scale.double()
    return table[codes].to(scale.dtype)


LARGEST = {"int8": 127.0, "float8_e4m3fn": 448.0}


def blocks_of(x: Any, height: int | None, width: int | None) -> Any:
    """A matrix as [blocks down, rows, blocks across, columns], each block being [:, i, :, j]."""
    rows, n = x.shape
    return x.reshape(rows // (height or rows), height or rows, n // (width or n), width or n)


def coded(ratio: Any, dtype: str) -> Any:
    """The nearest codes."""
    import torch

    if dtype == "int8":
        return ratio.round().clamp(-127, 127).to(torch.int8)
    return ratio.clamp(-448, 448).to(torch.float8_e4m3fn)


@adapter("quantize_blocks", dtypes=DTYPES, conventions={"power_rounding": "up"})
def control_blocks_divided(
    x: Any,
    *,
    static_scale: Any = None,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
    seed: int | None = None,
) -> Any:
    """Numbers over scales in single precision; with a seed, uniform numbers that are added before codes are cut off."""
    import torch

    blocks = blocks_of(x.float(), block_rows, block_columns)
    scale = blocks.abs().amax((1, 3), keepdim=True) / LARGEST[code_dtype]
    scale = torch.where(scale > 0, scale, 1.0)
    if power_of_two:
        scale = torch.exp2(torch.log2(scale).ceil())
    if static_scale is not None:
        scale = static_scale.clone().reshape(1, 1, 1, 1)
    ratio = (blocks / scale).reshape(x.shape)
    if seed is not None:
        step = distances(ratio) if code_dtype == "float8_e4m3fn" else torch.ones(())
        drawn = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed))
        ratio = (ratio / step + drawn).floor() * step
    return {"codes": coded(ratio, code_dtype), "scale": scale[:, 0, :, 0]}


@adapter("quantize_blocks", framework="numpy", dtypes=("float64", "float32", "bfloat16"))
def control_blocks_by_a_given_scale(
    x: Any,
    *,
    static_scale: Any,
    code_dtype: str = "int8",
    block_rows: int | None = None,
    block_columns: int | None = None,
) -> Any:
    """In double precision by a scale that is given; the least integer is -128."""
    import ml_dtypes
    import numpy as np

    integers = code_dtype == "int8"
    ratio = np.clip(x.astype(np.float64) / static_scale, -128 if integers else -448, LARGEST[code_dtype])
    codes = np.rint(ratio).astype(np.int8) if integers else ratio.astype(ml_dtypes.float8_e4m3fn)
    return {"codes": codes, "scale": static_scale.reshape(1, 1).copy()}


def distances(ratio: Any) -> Any:
    """How far the codes of float8_e4m3fn are apart around numbers."""
    import torch

    return torch.exp2(torch.frexp(ratio.abs().clamp(2.0**-6, 448.0)).exponent - 4.0)


@adapter("quantize_blocks", dtypes=("bfloat16", "float16"), conventions={"power_rounding": "nearest"})
def control_blocks_by_stored_reciprocals(
    x: Any,
    *,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
) -> Any:
    """Scales in the dtype of the numbers, and products with their reciprocals."""
    import torch

    blocks = blocks_of(x, block_rows, block_columns)
    scale = (blocks.abs().amax((1, 3), keepdim=True).float() * (1 / LARGEST[code_dtype])).to(x.dtype).float()
    scale = torch.where(scale > 0, scale, 1.0)
    if power_of_two:
        scale = torch.exp2(torch.log2(blocks.abs().amax((1, 3), keepdim=True).float() / LARGEST[code_dtype]).round())
        scale = torch.where(scale > 0, scale, 1.0)
    ratio = (blocks.float() * (1 / scale)).reshape(x.shape)
    return {
        "codes": coded(ratio, code_dtype),
        "scale": scale[:, 0, :, 0] if power_of_two else scale[:, 0, :, 0].to(x.dtype),
    }


@adapter("quantize_blocks", framework="numpy", dtypes=("float64", "float32"), conventions={"power_rounding": "up"})
def control_blocks_one_by_one(
    x: Any,
    *,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
    seed: int | None = None,
) -> Any:
    """Block by block in double precision; with a seed, one of the two codes between which a number lies is chosen."""
    import ml_dtypes
    import numpy as np

    (rows, n), dtype = x.shape, np.int8 if code_dtype == "int8" else ml_dtypes.float8_e4m3fn
    height, width = block_rows or rows, block_columns or n
    ladder = np.unique(np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64))
    ladder = ladder[np.abs(ladder) <= LARGEST[code_dtype]]
    codes, scale = np.zeros(x.shape), np.ones((rows // height, n // width), x.dtype)
    random = None if seed is None else np.random.Generator(np.random.Philox(seed))
    for i, j in np.ndindex(*scale.shape):
        part = np.s_[i * height : (i + 1) * height, j * width : (j + 1) * width]
        step = float(np.abs(x[part]).max() / LARGEST[code_dtype]) or 1.0
        step = float(2.0 ** np.ceil(np.log2(step))) if power_of_two else step
        ratio = np.clip(x[part].astype(np.float64) / step, ladder[0], ladder[-1])
        above = np.clip(np.searchsorted(ladder, ratio, side="right"), 1, len(ladder) - 1)
        share = (ratio - ladder[above - 1]) / (ladder[above] - ladder[above - 1])
        if random is None:
            codes[part] = np.rint(ratio) if code_dtype == "int8" else ratio.astype(dtype).astype(np.float64)
        else:
            codes[part] = ladder[above - 1 + (random.random(share.shape) < share)]
        scale[i, j] = step
    return {"codes": codes.astype(dtype), "scale": scale}


@adapter("quantize_blocks", dtypes=DTYPES, conventions={"power_rounding": "floored"})
def control_blocks_by_fractions(
    x: Any,
    *,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
) -> Any:
    """Powers of two by the exponent of the largest size."""
    import torch

    blocks = blocks_of(x.float(), block_rows, block_columns)
    peak = blocks.abs().amax((1, 3), keepdim=True)
    scale = peak / LARGEST[code_dtype]
    if power_of_two:
        octave = 7 if code_dtype == "int8" else 9
        scale = torch.ldexp(torch.ones(()), torch.frexp(peak).exponent - octave)
    scale = torch.where(peak > 0, scale, 1.0)
    return {"codes": coded((blocks / scale).reshape(x.shape), code_dtype), "scale": scale[:, 0, :, 0]}


@adapter("quantize_blocks", framework="numpy", dtypes=("float32",), conventions={"power_rounding": "floored"})
def control_blocks_by_bits(
    x: Any,
    *,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
) -> Any:
    """Powers of two by the bits of the largest size that hold its exponent, and products with reciprocals."""
    import ml_dtypes
    import numpy as np

    blocks = blocks_of(x, block_rows, block_columns)
    peak = np.abs(blocks).max((1, 3), keepdims=True).astype(np.float32)
    scale = peak / np.float32(LARGEST[code_dtype])
    if power_of_two:
        octave = np.float32(64 if code_dtype == "int8" else 256)
        scale = (peak.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32) / octave
    scale = np.where(peak > 0, scale, np.float32(1))
    ratio = np.clip((blocks * (1 / scale)).reshape(x.shape), -LARGEST[code_dtype], LARGEST[code_dtype])
    codes = np.rint(ratio).astype(np.int8) if code_dtype == "int8" else ratio.astype(ml_dtypes.float8_e4m3fn)
    return {"codes": codes, "scale": scale[:, 0, :, 0]}


@adapter("quantize_blocks", dtypes=DTYPES, conventions={"power_rounding": "even"})
def control_blocks_by_rounded_exponents(
    x: Any,
    *,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
) -> Any:
    """Powers of two by the exponent of the largest size, of which the bits behind those of a code are rounded first."""
    import torch

    blocks = blocks_of(x.float(), block_rows, block_columns)
    peak = blocks.abs().amax((1, 3), keepdim=True)
    scale = peak / LARGEST[code_dtype]
    if power_of_two:
        kept, octave = (6, 6) if code_dtype == "int8" else (3, 8)
        bits = peak.view(torch.int32) + (1 << (22 - kept)) >> 23
        scale = torch.ldexp(torch.ones(()), bits - 127 - octave)
    scale = torch.where(peak > 0, scale, 1.0)
    return {"codes": coded((blocks / scale).reshape(x.shape), code_dtype), "scale": scale[:, 0, :, 0]}


@adapter("quantize_blocks", dtypes=DTYPES, conventions={"power_rounding": "even"})
def control_blocks_by_rounded_fractions(
    x: Any,
    *,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
) -> Any:
    """The largest size is rounded as a fraction and a power, in double precision, before its exponent is taken."""
    import torch

    blocks = blocks_of(x.double(), block_rows, block_columns)
    peak = blocks.abs().amax((1, 3), keepdim=True)
    scale = peak / LARGEST[code_dtype]
    if power_of_two:
        steps, octave = (128, 7) if code_dtype == "int8" else (16, 9)
        fraction, exponent = torch.frexp(peak)
        carried = (fraction * steps + 0.5).floor() == steps
        scale = torch.ldexp(torch.ones_like(peak), exponent - octave + carried.int())
    scale = torch.where(peak > 0, scale, 1.0)
    codes = coded((blocks * (1 / scale)).reshape(x.shape), code_dtype)
    return {"codes": codes, "scale": scale[:, 0, :, 0].float()}


@adapter("quantize_blocks", dtypes=DTYPES, conventions={"power_rounding": "ceiled"})
def control_blocks_by_raised_exponents(
    x: Any,
    *,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
) -> Any:
    """Powers of two by the exponent of the largest size, and one more where anything stands behind its leading bit."""
    import torch

    blocks = blocks_of(x.float(), block_rows, block_columns)
    peak = blocks.abs().amax((1, 3), keepdim=True)
    scale = peak / LARGEST[code_dtype]
    if power_of_two:
        bits = peak.view(torch.int32)
        exponent = (bits >> 23) + ((bits & 0x7FFFFF) > 0) - 127
        scale = torch.ldexp(torch.ones(()), exponent - (6 if code_dtype == "int8" else 8))
    scale = torch.where(peak > 0, scale, 1.0)
    return {"codes": coded((blocks / scale).reshape(x.shape), code_dtype), "scale": scale[:, 0, :, 0]}


@adapter("quantize_blocks", dtypes=DTYPES, conventions={"power_rounding": "ceiled"})
def control_blocks_below_a_power(
    x: Any,
    *,
    code_dtype: str = "int8",
    block_rows: int | None = 1,
    block_columns: int | None = None,
    power_of_two: bool = False,
) -> Any:
    """The power of two above the largest size is doubled and halved until it is the next one."""
    import torch

    blocks = blocks_of(x.float(), block_rows, block_columns)
    peak = blocks.abs().amax((1, 3), keepdim=True)
    scale = peak / LARGEST[code_dtype]
    if power_of_two:
        above = torch.where(peak > 0, 2.0**40, 64.0 if code_dtype == "int8" else 256.0)
        while (half := (above / 2 >= peak) & (peak > 0)).any():
            above = torch.where(half, above / 2, above)
        scale = above / (64 if code_dtype == "int8" else 256)
    scale = torch.where(peak > 0, scale, 1.0)
    return {"codes": coded((blocks * (1 / scale)).reshape(x.shape), code_dtype), "scale": scale[:, 0, :, 0]}
