"""The short convolutions of Hugging Face transformers where no kernel is installed.

Source: transformers/models/qwen3_next/modeling_qwen3_next.py, causal_conv1d_fn (without a state) and
causal_conv1d_update (with one, which is changed in place).
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16", "float64"),
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    "package": "transformers",
    "extra": "transformers",
}


@adapter("short_convolution", **DECLARED)
def qwen3_next_convolution(x: Any, weight: Any, bias: Any = None, *, silu: bool = False) -> Any:
    """causal_conv1d_fn of transformers.models.qwen3_next."""
    from transformers.models.qwen3_next.modeling_qwen3_next import causal_conv1d_fn

    return causal_conv1d_fn(x, weight, bias, activation="silu" if silu else None)


@adapter("short_convolution", **DECLARED)
def qwen3_next_convolution_update(
    x: Any, weight: Any, bias: Any = None, state: Any = None, *, silu: bool = False
) -> Any:
    """causal_conv1d_update of transformers.models.qwen3_next, with a state of zeros where none is given."""
    import torch
    from transformers.models.qwen3_next.modeling_qwen3_next import causal_conv1d_update

    shape = (*x.shape[:2], weight.shape[1] - 1)
    held = torch.zeros(shape, dtype=x.dtype) if state is None else state.clone()
    out = causal_conv1d_update(x, held, weight, bias, activation="silu" if silu else None)
    return {"out": out, "final_state": held}
