"""Gated activations that vLLM makes codes of in the same step, in Triton.

Source: https://github.com/vllm-project/vllm (vllm/model_executor/layers/quantization/utils/fp8_utils.py)
Scales are powers of two in the first, and may be in the second: the least ones with which no number of a group is
beyond the range. Before that they are at least 1e-10 in the first, and in the second the largest size is.
"""

from __future__ import annotations

from typing import Any

from ..triton.interpreter import declared
from .modules import fp8_utility


@declared(
    "activated_blocks",
    dtypes=("bfloat16",),
    package="vllm",
    limits={"group_size": (4, 16, 32)},
    fixed={"code_dtype": "e4m3", "power_of_two": True, "least_scale": 1e-10},
)
def vllm_silu_mul_quant_fp8_packed(
    x: Any, *, group_size: int, alpha: float = 1.0, beta: float = 0.0, limit: float | None = None
) -> Any:
    """silu_mul_quant_fp8_packed_triton, whose exponents are read out of the integers."""
    import torch

    codes, packed = fp8_utility().silu_mul_quant_fp8_packed_triton(
        x.contiguous(), group_size, clamp_limit=limit, alpha=alpha, beta=beta
    )
    exponents = torch.stack([packed >> 8 * place & 255 for place in range(4)], 2).reshape(len(x), -1)
    groups = x.shape[1] // 2 // group_size
    return {"codes": codes, "scale": torch.exp2(exponents[:, :groups].float() - 127)}


@declared(
    "activated_blocks",
    dtypes=("float32", "bfloat16"),
    package="vllm",
    limits={"group_size": (4, 16, 32)},
    fixed={"code_dtype": "e4m3", "least_scale": 1e-10 / 448},
    requires=("size(x, 0) % 8 == 0 and size(x, 0) % group_size == 0",),
)
def vllm_silu_mul_per_token_group_quant_fp8(
    x: Any,
    *,
    group_size: int,
    power_of_two: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float | None = None,
) -> Any:
    """silu_mul_per_token_group_quant_fp8_colmajor, of eight rows at a time."""
    codes, scale = fp8_utility().silu_mul_per_token_group_quant_fp8_colmajor(
        x.contiguous(),
        use_ue8m0=power_of_two,
        group_size=group_size,
        clamp_limit=limit,
        alpha=alpha,
        beta=beta,
    )
    return {"codes": codes, "scale": scale}
