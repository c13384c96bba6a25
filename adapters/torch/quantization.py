"""PyTorch's affine quantization of whole tensors.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.quantize_per_tensor.html,
.../torch.quantize_per_tensor_dynamic.html and .../torch.fake_quantize_per_tensor_affine.html
Range, scale and zero point come from torch.ao.quantization.MinMaxObserver, or from the dynamic function itself; both
widen the range to contain zero and have whole zero points.
Quantized tensors are made of float32 alone. A fake-quantized tensor holds numbers; its codes are counted from them.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter

CONVENTIONS = {"quantized_range": "with_zero", "zero_point_form": "integer"}


def observed(x: Any, bits: int) -> tuple[float, int]:
    """The scale and zero point that an observer finds for codes from 0 to 2 ** bits - 1."""
    import torch
    from torch.ao.quantization.observer import MinMaxObserver

    observer = MinMaxObserver(
        dtype=torch.quint8, qscheme=torch.per_tensor_affine, quant_min=0, quant_max=2**bits - 1
    ).to(x.device)
    observer(x)
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point)


@adapter("quantize", dtypes=("float32",), conventions=CONVENTIONS, fixed={"bits": 8}, package="torch")
def torch_quantize(x: Any) -> Any:
    """torch.quantize_per_tensor with the scale and zero point of MinMaxObserver."""
    import torch

    scale, zero_point = observed(x, 8)
    quantized = torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)
    return {"codes": quantized.int_repr(), "scale": scale, "zero_point": zero_point}


@adapter("quantize", dtypes=("float32",), conventions=CONVENTIONS, fixed={"bits": 8}, package="torch")
def torch_dynamic(x: Any) -> Any:
    """torch.quantize_per_tensor_dynamic."""
    import torch

    quantized = torch.quantize_per_tensor_dynamic(x, torch.quint8, False)
    return {"codes": quantized.int_repr(), "scale": quantized.q_scale(), "zero_point": quantized.q_zero_point()}


@adapter(
    "quantize",
    dtypes=("float32", "float64"),
    conventions=CONVENTIONS,
    limits={"bits": range(1, 9)},
    grade="fp32",
    package="torch",
)
def torch_fake_quantize(x: Any, *, bits: int = 8) -> Any:
    """torch.fake_quantize_per_tensor_affine with the scale and zero point of MinMaxObserver."""
    import torch

    scale, zero_point = observed(x, bits)
    rounded = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 2**bits - 1)
    codes = torch.round(rounded.double() / scale).to(torch.int64) + zero_point
    return {"codes": codes, "scale": scale, "zero_point": zero_point}


@adapter(
    "dequantize",
    requires=(
        "all(zero_point == round(zero_point))",
        "all(zero_point >= 0) and all(zero_point <= 255)",
        "all(codes >= 0) and all(codes <= 255)",
    ),
    dtypes=("float32",),
    package="torch",
)
def torch_dequantize(codes: Any, scale: Any, zero_point: Any) -> Any:
    """Tensor.dequantize of a tensor of quint8 with these codes."""
    import torch

    origin = float(zero_point)
    if not origin.is_integer() or not 0 <= origin <= 255:
        raise Unsupported("the zero point is one of the codes")
    if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) <= 255:
        raise Unsupported("codes have eight bits")
    packed = codes.to(torch.uint8)
    return torch._make_per_tensor_quantized_tensor(packed, float(scale), int(origin)).dequantize()
