"""Products of codes with scales of stretches and blocks in SGLang, in Triton.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops/gemm/fp8_kernel.py and int8_kernel.py)
The left matrix has a scale for each row, stretch by stretch, and the right one, which is handed transposed, one for
each block.
"""

from __future__ import annotations

from typing import Any

from ..triton.interpreter import declared
from ..triton.products import IN_BLOCKS
from .modules import PRODUCTS, module

BLOCKS: dict[str, Any] = {"package": "sglang", **IN_BLOCKS}


@declared("scaled_matmul", dtypes=("float32",), **BLOCKS)
def sglang_block_fp8_matmul(a: Any, b: Any, a_scale: Any, b_scale: Any, *, inner_block: int, outs_block: int) -> Any:
    """w8a8_block_fp8_matmul_triton with results in float32."""
    import torch

    kernel = module("fp8_kernel", PRODUCTS).w8a8_block_fp8_matmul_triton
    sides = (a.contiguous(), b.T.contiguous(), a_scale, b_scale.T.contiguous())
    return kernel(*sides, [outs_block, inner_block], torch.float32)


@declared(
    "scaled_matmul",
    dtypes=("float32",),
    **{**BLOCKS, "limits": {**BLOCKS["limits"], "a_dtype": ("a_int8",), "b_dtype": ("b_int8",)}},
)
def sglang_block_int8_matmul(a: Any, b: Any, a_scale: Any, b_scale: Any, *, inner_block: int, outs_block: int) -> Any:
    """w8a8_block_int8_matmul with results in float32."""
    import torch

    kernel = module("int8_kernel", PRODUCTS).w8a8_block_int8_matmul
    sides = (a.contiguous(), b.T.contiguous(), a_scale, b_scale.T.contiguous())
    return kernel(*sides, [outs_block, inner_block], torch.float32)
