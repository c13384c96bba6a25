"""Products with quantized matrices in PyTorch, on the CPU.

Source: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/LinearAlgebra.cpp, _weight_int4pack_mm_for_cpu
and .../native/Blas.cpp, _scaled_mm_cpu
Codes of four bits are packed by a function of its own; a weight is its code less eight, times the scale, plus a number.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "quantized_matmul",
    dtypes=("float32",),
    fixed={"bits": 4, "transpose_weights": True},
    limits={"outs": range(16, 4097, 16)},
    requires=("all(scales != 0) and all(offsets == -scales * round(-offsets / scales))",),
    package="torch",
)
def torch_int4pack_mm(x: Any, codes: Any, scales: Any, offsets: Any, *, group_size: int = 32) -> Any:
    """torch._weight_int4pack_mm_for_cpu."""
    import torch

    if codes.shape[1] % group_size or x.shape[1] != codes.shape[1]:
        raise ValueError("groups are whole, and every weight has an input")
    packed = torch._convert_weight_to_int4pack_for_cpu(codes.to(torch.int32), 1)
    pairs = torch.stack((scales, offsets + 8 * scales), -1).transpose(0, 1).contiguous()
    return torch._weight_int4pack_mm_for_cpu(x.contiguous(), packed, group_size, pairs)


FLOAT8: dict[str, Any] = {
    "limits": {"a_dtype": ("a_e4m3fn", "a_e5m2"), "b_dtype": ("b_e4m3fn", "b_e5m2")},
    "requires": ("size(a_scale, 0) == 1 and size(b_scale) == 1 or size(a_scale, 0) == rows and size(b_scale) == outs",),
    "package": "torch",
}


def scaled_mm(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any, dtype: Any, out_scale: Any = None) -> Any:
    """torch._scaled_mm, by two single scales or by rows and columns; it counts strides of axes of one, too."""
    import torch

    single = a_scale.numel() == b_scale.numel() == 1
    scales = [s.reshape(()) if single else s.new_empty(s.shape).copy_(s) for s in (a_scale, b_scale)]
    return torch._scaled_mm(a, b, *scales, bias=bias, scale_result=out_scale, out_dtype=dtype)


@adapter("scaled_matmul", dtypes=("float32",), **FLOAT8)
def torch_scaled_mm(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any = None) -> Any:
    """torch._scaled_mm with results in float32."""
    import torch

    return scaled_mm(a, b, a_scale, b_scale, bias, torch.float32)


@adapter("scaled_matmul", dtypes=("bfloat16",), **FLOAT8)
def torch_scaled_mm_bfloat16(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any = None) -> Any:
    """torch._scaled_mm with results in bfloat16."""
    import torch

    return scaled_mm(a, b, a_scale, b_scale, bias, torch.bfloat16)


@adapter("scaled_matmul", dtypes=("float16",), **FLOAT8)
def torch_scaled_mm_float16(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any = None) -> Any:
    """torch._scaled_mm with results in float16."""
    import torch

    return scaled_mm(a, b, a_scale, b_scale, bias, torch.float16)


@adapter("scaled_matmul", dtypes=("float32",), conventions={"output_scale": "divides"}, **FLOAT8)
def torch_scaled_mm_float8(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any = None, *, out_scale: Any) -> Any:
    """torch._scaled_mm with results in float8 and scale_result."""
    import torch

    return scaled_mm(a, b, a_scale, b_scale, bias, torch.float8_e4m3fn, out_scale)
