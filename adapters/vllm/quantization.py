"""Blocks of codes as numbers, as vLLM makes them where a device has no kernel for the codes.

Source: https://github.com/vllm-project/vllm (vllm/model_executor/layers/quantization/utils/nvfp4_emulation_utils.py and
mxfp8_utils.py; csrc/cpu/quant.cpp)
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .modules import compiled, utility


@adapter(
    "dequantize_blocks",
    dtypes=("float32",),
    fixed={"block_format": "nvfp4"},
    requires=("not swizzled or size(codes) // 8 % 4 == 0",),
    package="vllm",
)
def vllm_nvfp4(codes: Any, scales: Any, tensor_scale: Any = None, *, swizzled: bool = False) -> Any:
    """dequantize_to_dtype; of swizzled scales it leaves the columns that fill a tile."""
    import torch

    emulation = utility("nvfp4_emulation_utils")
    whole = torch.ones(1, device=codes.device) if tensor_scale is None else tensor_scale
    return emulation.dequantize_to_dtype(codes, scales.contiguous(), whole, torch.float32, swizzle=swizzled)


@adapter(
    "dequantize_blocks",
    dtypes=("bfloat16",),
    fixed={"swizzled": False},
    requires=("block_format == mxfp8_e4m3 or block_format == mxfp8_e5m2",),
    conventions={"last_scale": "infinite"},
    package="vllm",
)
def vllm_mxfp8(codes: Any, scales: Any, *, block_format: str = "mxfp8_e4m3") -> Any:
    """dequant_mxfp8_to_bf16."""
    import torch

    kind = torch.float8_e5m2 if block_format == "mxfp8_e5m2" else torch.float8_e4m3fn
    return utility("mxfp8_utils").dequant_mxfp8_to_bf16(codes.contiguous().view(kind), scales)


@adapter(
    "quantize_blocks",
    dtypes=("float32", "bfloat16", "float16"),
    fixed={"code_dtype": "i8", "block_rows": 1, "block_columns": None, "power_of_two": False},
    package="vllm",
)
def vllm_cpu_int8_quant(x: Any) -> Any:
    """dynamic_scaled_int8_quant, compiled for the CPU, with a scale for each token."""
    import torch

    codes, scale = torch.empty(x.shape, dtype=torch.int8), torch.empty(len(x), 1)
    compiled().dynamic_scaled_int8_quant(codes, x.new_empty(x.shape).copy_(x), scale, None)
    return {"codes": codes, "scale": scale}
