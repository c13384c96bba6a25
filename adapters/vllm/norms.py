"""Root mean square normalisation of vLLM on the CPU, alone and of what is added to a residual first.

Source: https://github.com/vllm-project/vllm (csrc/cpu/layernorm.cpp)
Rows are whole vectors of eight entries, and the second kernel writes over its inputs.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .modules import compiled

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    "package": "vllm",
}


def fitting(x: Any, weight: Any) -> None:
    """Refuse rows without a weight for each channel, and those that are no whole vectors."""
    if weight.shape != x.shape[-1:]:
        raise ValueError("every channel has a weight")
    if x.shape[-1] % 8 or not x.numel():
        raise Unsupported("rows are whole vectors of eight entries")


@adapter("rms_norm", limits={"n": range(8, 8193, 8)}, **DECLARED)
def vllm_cpu_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """rms_norm, which writes its output."""
    fitting(x, weight)
    out = x.new_empty(x.shape)
    compiled().rms_norm(out, x.contiguous(), weight.contiguous(), eps)
    return out


@adapter("residual_rms_norm", limits={"n": range(8, 8193, 8)}, **DECLARED)
def vllm_cpu_fused_add_rms_norm(x: Any, residual: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """fused_add_rms_norm of copies, since it writes over both."""
    import torch

    if residual.shape != x.shape:
        raise ValueError("every entry has a residual")
    fitting(x, weight)
    out, summed = (torch.clone(y, memory_format=torch.contiguous_format) for y in (x, residual))
    compiled().fused_add_rms_norm(out, summed, weight.contiguous(), eps)
    return {"out": out, "summed": summed}
