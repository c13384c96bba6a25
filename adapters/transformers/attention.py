"""The attention functions that the models of Hugging Face transformers share.

Source: transformers/models/llama/modeling_llama.py (eager_attention_forward) and
transformers/integrations/sdpa_attention.py (sdpa_attention_forward).
Both return [batch, length, heads, head_dim] and take the scale as an argument.
Eager attention adds its mask, which the library fills with the lowest finite number; its softmax is computed in
float32, whatever the dtype is, and everything else is stored in the dtype of the inputs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")


def module(q: Any, k: Any, causal: bool = False) -> Any:
    """What the functions read of the layer that calls them."""
    return SimpleNamespace(num_key_value_groups=q.shape[1] // max(k.shape[1], 1), training=False, is_causal=causal)


def additive(mask: Any, bias: Any, like: Any) -> Any:
    """A mask and a bias as one additive mask, as `transformers.masking_utils.eager_mask` fills it.

    Where all keys that a mask leaves have a bias of minus infinity, the finite number would let hidden ones win; models
    hide in one way or in the other.
    """
    import torch

    lowest = torch.finfo(like.dtype).min
    if mask is None:
        return bias
    if bias is not None and bias.isneginf().any():
        raise Unsupported("a bias of minus infinity next to a mask of finite numbers")
    return torch.where(mask, torch.zeros((), dtype=like.dtype, device=like.device) if bias is None else bias, lowest)


@adapter(
    "attention",
    dtypes=DTYPES,
    conventions={"empty_row": "mean_value", "empty_bias_row": "nan_row", "grouping": "block"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"},
    package="transformers",
    extra="transformers",
)
def transformers_eager(
    q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """eager_attention_forward of transformers.models.llama."""
    from transformers.models.llama.modeling_llama import eager_attention_forward

    scaling = q.shape[-1] ** -0.5 if scale is None else scale
    out, _ = eager_attention_forward(module(q, k), q, k, v, additive(mask, bias, q), scaling)
    return out.transpose(1, 2)


@adapter(
    "attention",
    requires="not causal or single(mask)",
    dtypes=DTYPES,
    conventions={"causal_alignment": "top_left", "empty_row": "zeros", "grouping": "block"},
    package="transformers",
    extra="transformers",
)
def transformers_sdpa(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """sdpa_attention_forward of transformers.integrations."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if causal and mask is not None:
        raise Unsupported("is_causal is not applied where a mask is given")
    if bias is not None:
        bias = bias[(None,) * (4 - bias.ndim)]  # its axes are taken one by one
    out, _ = sdpa_attention_forward(
        module(q, k, causal), q, k, v, mask, scaling=scale, is_causal=causal, position_bias=bias
    )
    return out.transpose(1, 2)
