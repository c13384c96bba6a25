"""Rows that SGLang normalises and makes codes of in one step, in Triton.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops/layernorm/rmsnorm_fp8_e8m0.py)
A scale is the least power of two with which no number of its group is beyond the range, and is stored as its exponent;
those of the first groups of all rows come first, whatever the shape says.
"""

from __future__ import annotations

from typing import Any

from ..triton.interpreter import declared
from .modules import LAYERNORM, module


@declared(
    "normed_blocks",
    dtypes=("float32", "bfloat16"),
    package="sglang",
    limits={"group_size": (4, 16, 32)},
    fixed={"code_dtype": "e4m3", "power_of_two": True, "least_scale": 0.0},
)
def sglang_rmsnorm_fp8_e8m0(x: Any, weight: Any, *, group_size: int, eps: float = 1e-6) -> Any:
    """rmsnorm_fp8_e8m0_quant, which also returns the normalised rows."""
    if weight.shape != x.shape[1:]:
        raise ValueError("every channel has a weight")
    norm = module("rmsnorm_fp8_e8m0", LAYERNORM)
    (codes, scale), _ = norm.rmsnorm_fp8_e8m0_quant(x.contiguous(), weight.contiguous(), eps, group_size)
    return {"codes": codes, "scale": scale.float().reshape(-1, len(x)).mT}


@declared(
    "normed_blocks",
    dtypes=("float32", "bfloat16"),
    package="sglang",
    limits={"group_size": (32,)},
    fixed={"code_dtype": "e4m3", "power_of_two": True, "least_scale": 0.0},
)
def sglang_rmsnorm_fake_quant_fp8(
    x: Any, weight: Any, residual: Any = None, *, group_size: int, eps: float = 1e-6
) -> Any:
    """rmsnorm_fake_quant_fp8 with emit_fp8, which writes the sum over the residual."""
    if weight.shape != x.shape[1:]:
        raise ValueError("every channel has a weight")
    summed = None if residual is None else residual.contiguous().clone()
    norm = module("rmsnorm_fake_quant_amd_gfx95", LAYERNORM)
    found, _ = norm.rmsnorm_fake_quant_fp8(x, weight, eps, summed, return_norm=False, emit_fp8=True)
    outputs = {"codes": found.q, "scale": 2.0 ** (found.scale.float() - 127)}
    return outputs if summed is None else {**outputs, "summed": summed}
