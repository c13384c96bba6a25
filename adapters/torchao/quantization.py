"""Symmetric quantization of blocks in torchao.

Source: https://github.com/pytorch/ao/blob/main/torchao/prototype/quantized_training/int8.py and
.../torchao/quantization/quant_primitives.py, .../torchao/prototype/mx_formats/mx_tensor.py and nvfp4_tensor.py
Scales of integers are in the dtype of the numbers, and those of float8 in float32; a power of two is the nearest one.
Blocks of a single number are not divided into, and raise an error.
The noise of stochastic rounding comes from torch's own generator.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
declared = functools.partial(adapter, "quantize_blocks", dtypes=DTYPES, package="torchao", extra="torchao")


@declared(fixed={"code_dtype": "i8", "block_rows": 1, "block_columns": None, "power_of_two": False})
def torchao_int8_rowwise(x: Any, *, seed: int | None = None) -> Any:
    """quantize_int8_rowwise, with stochastic_rounding where there is a seed."""
    import torch
    from torchao.prototype.quantized_training.int8 import quantize_int8_rowwise

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed or 0)
        codes, scale = quantize_int8_rowwise(x, stochastic_rounding=seed is not None)
    return {"codes": codes, "scale": scale[:, None]}


@declared(
    fixed={"code_dtype": "e4m3"},
    conventions={"power_rounding": "nearest"},
    requires=("(rows if block_rows == none else block_rows) * (n if block_columns == none else block_columns) > 1",),
)
def torchao_float8(
    x: Any, *, block_rows: int | None = 1, block_columns: int | None = None, power_of_two: bool = False
) -> Any:
    """The float8 codes of quant_primitives, by scales of blocks."""
    import torch
    from torchao.quantization.quant_primitives import _choose_scale_float8, _quantize_affine_float8

    block = [block_rows or x.shape[0], block_columns or x.shape[1]]
    form = torch.float8_e8m0fnu if power_of_two else torch.float32
    scale = _choose_scale_float8(x, block, torch.float8_e4m3fn, form)
    return {"codes": _quantize_affine_float8(x, scale, torch.float8_e4m3fn), "scale": scale}


MX: dict[str, Any] = {"code_dtype": "e4m3", "block_rows": 1, "block_columns": 32, "power_of_two": True}


def microscaled(x: Any, mode: str) -> Any:
    """Codes in e4m3 and scales of to_mx, of blocks of 32 and by a mode of finding scales."""
    import torch
    from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx

    scale, codes = to_mx(x.contiguous(), torch.float8_e4m3fn, 32, scaling_mode=ScaleCalculationMode(mode))
    return {"codes": codes, "scale": scale.float().reshape(len(x), -1)}


@declared(dtypes=("float32", "bfloat16"), fixed=MX, conventions={"power_rounding": "floored"})
def torchao_mx_floor(x: Any) -> Any:
    """to_mx with the mode FLOOR, which is that of the specification."""
    return microscaled(x, "floor")


@declared(dtypes=("float32", "bfloat16"), fixed=MX, conventions={"power_rounding": "up"})
def torchao_mx_rceil(x: Any) -> Any:
    """to_mx with the mode RCEIL."""
    return microscaled(x, "rceil")


@declared(dtypes=("float32", "bfloat16"), fixed=MX, conventions={"power_rounding": "ceiled"})
def torchao_mx_ceil(x: Any) -> Any:
    """to_mx with the mode CEIL."""
    return microscaled(x, "ceil")


@declared(dtypes=("float32", "bfloat16"), fixed=MX, conventions={"power_rounding": "even"})
def torchao_mx_even(x: Any) -> Any:
    """to_mx with the mode EVEN."""
    return microscaled(x, "even")


@adapter(
    "dequantize_blocks",
    dtypes=("float32",),
    fixed={"swizzled": False},
    requires=("block_format != nvfp4",),
    package="torchao",
    extra="torchao",
)
def torchao_mx(codes: Any, scales: Any, *, block_format: str = "mxfp8_e4m3") -> Any:
    """to_dtype of mx_tensor, by blocks of 32."""
    import torch
    from torchao.prototype.mx_formats.mx_tensor import to_dtype

    kinds = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2}
    codes, steps = codes.contiguous(), scales.contiguous().view(torch.float8_e8m0fnu)
    if block_format in kinds:
        return to_dtype(codes.view(kinds[block_format]), steps, kinds[block_format], 32, torch.float32)
    return to_dtype(codes, steps, torch.float4_e2m1fn_x2, 32, torch.float32)


@adapter("dequantize_blocks", dtypes=("float32",), fixed={"block_format": "nvfp4"}, package="torchao", extra="torchao")
def torchao_nvfp4(codes: Any, scales: Any, tensor_scale: Any = None, *, swizzled: bool = False) -> Any:
    """NVFP4Tensor.dequantize."""
    import torch
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor

    steps = scales.contiguous().view(torch.float8_e4m3fn)
    whole = None if tensor_scale is None else tensor_scale[0]
    tensor = NVFP4Tensor(codes.contiguous(), steps, 16, torch.float32, whole, is_swizzled_scales=swizzled)
    return tensor.dequantize(torch.float32)
