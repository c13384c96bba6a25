"""The time mixing of RWKV-4 of transformers.

Source: https://github.com/huggingface/transformers/blob/main/src/transformers/models/rwkv/modeling_rwkv.py
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter("wkv4", dtypes=("float32", "bfloat16", "float16"), package="transformers", extra="transformers")
def transformers_rwkv_linear_attention(w: Any, u: Any, k: Any, v: Any, past: Any = None, lse: Any = None) -> Any:
    """rwkv_linear_attention_cpu, whose state is a sum of values, one of weights and a running maximum."""
    import torch
    from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu

    state = None if past is None else [past, torch.ones_like(past), lse]
    out, (total, weight, top) = rwkv_linear_attention_cpu(w, u, k, v, state=state, return_state=True)
    return {"out": out, "final_past": total / weight, "final_lse": top + weight.log()}
