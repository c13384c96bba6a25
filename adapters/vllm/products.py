"""Products of codes with scales in vLLM, in Triton.

Source: https://github.com/vllm-project/vllm (vllm/model_executor/layers/quantization/utils/fp8_utils.py and
.../compressed_tensors/triton_scaled_mm.py)
The first has a scale for each row of the left matrix, stretch by stretch, and one for each block of the right one,
which it is handed transposed. The second has scales of everything, of rows and of columns.
"""

from __future__ import annotations

from typing import Any

from ..triton.interpreter import declared
from ..triton.products import IN_BLOCKS
from .modules import fp8_utility, scaled_products

BLOCKS: dict[str, Any] = {"package": "vllm", **IN_BLOCKS}
PLAIN: dict[str, Any] = {
    "package": "vllm",
    "limits": {"a_dtype": ("a_e4m3fn", "a_e5m2", "a_int8"), "b_dtype": ("b_e4m3fn", "b_e5m2", "b_int8")},
    "requires": ("a_dtype == a_int8 or (a_dtype == a_e5m2) == (b_dtype == b_e5m2)",),
}


def blocks(a: Any, b: Any, a_scale: Any, b_scale: Any, outs_block: int, inner_block: int, dtype: Any) -> Any:
    """w8a8_triton_block_scaled_mm."""
    return fp8_utility().w8a8_triton_block_scaled_mm(
        a.contiguous(), b.T.contiguous(), a_scale, b_scale.T.contiguous(), [outs_block, inner_block], dtype
    )


@declared("scaled_matmul", dtypes=("float32",), **BLOCKS)
def vllm_block_scaled_mm(a: Any, b: Any, a_scale: Any, b_scale: Any, *, inner_block: int, outs_block: int) -> Any:
    """w8a8_triton_block_scaled_mm with results in float32."""
    import torch

    return blocks(a, b, a_scale, b_scale, outs_block, inner_block, torch.float32)


@declared("scaled_matmul", dtypes=("bfloat16",), **BLOCKS)
def vllm_block_scaled_mm_bfloat16(
    a: Any, b: Any, a_scale: Any, b_scale: Any, *, inner_block: int, outs_block: int
) -> Any:
    """w8a8_triton_block_scaled_mm with results in bfloat16."""
    import torch

    return blocks(a, b, a_scale, b_scale, outs_block, inner_block, torch.bfloat16)


def plain(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any, dtype: Any) -> Any:
    """triton_scaled_mm, which is handed matrices without gaps, in either order of axes."""
    return scaled_products().triton_scaled_mm(
        a.contiguous(), b.contiguous(), a_scale.contiguous(), b_scale.T.contiguous(), dtype, bias
    )


@declared("scaled_matmul", dtypes=("float32",), **PLAIN)
def vllm_scaled_mm(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any = None) -> Any:
    """triton_scaled_mm with results in float32."""
    import torch

    return plain(a, b, a_scale, b_scale, bias, torch.float32)


@declared("scaled_matmul", dtypes=("bfloat16",), **PLAIN)
def vllm_scaled_mm_bfloat16(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any = None) -> Any:
    """triton_scaled_mm with results in bfloat16."""
    import torch

    return plain(a, b, a_scale, b_scale, bias, torch.bfloat16)
