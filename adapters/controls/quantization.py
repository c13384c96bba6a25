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
