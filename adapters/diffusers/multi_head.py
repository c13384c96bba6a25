"""The attention layer of diffusers, by its two processors.

Documentation: https://huggingface.co/docs/diffusers/api/attnprocessor
Heads are split as in the models; a mask is boolean for scaled dot-product attention, and added by the other processor.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")

ONE_MASK = "size(mask == full(true, 1, 1, 1, 1), 1) * size(mask == full(true, 1, 1, 1, 1), 2) == 1"
"""A mask that hides keys for all heads and queries alike."""


def called(
    x: Any, context: Any, maps: tuple[Any, ...], biases: tuple[Any, ...], heads: int, mask: Any, processor: str
) -> Any:
    """One call of a layer with these maps, the one of the output last."""
    import torch
    from diffusers.models import attention_processor

    dim, width = maps[0].shape
    biased = any(b is not None for b in biases[:3])
    kind = attention_processor.Attention
    made = new_layer(kind, dim, heads=heads, dim_head=width // heads, bias=biased, out_bias=True)
    made = made.to(x.device, x.dtype).eval()
    made.set_processor(getattr(attention_processor, processor)())
    with torch.no_grad():
        for layer, w, b in zip((made.to_q, made.to_k, made.to_v, made.to_out[0]), maps, biases, strict=True):
            layer.weight.copy_(w.T)
            if layer.bias is not None:
                layer.bias.zero_() if b is None else layer.bias.copy_(b)
    if mask is not None:
        q_len, k_len = x.shape[1], context.shape[1]
        whole = mask.reshape(*(1,) * (4 - mask.ndim), *mask.shape)
        if whole.shape[1:3] != (1, 1):
            raise Unsupported("a mask hides keys, for all heads and queries alike")
        mask = whole[:, 0].expand(x.shape[0], 1, k_len)
        if processor == "AttnProcessor":
            mask = torch.where(mask, torch.zeros((), dtype=x.dtype), torch.finfo(x.dtype).min)
            mask = mask.expand(-1, q_len, -1)
    return made(x, encoder_hidden_states=context, attention_mask=mask).detach()


@adapter(
    "multi_head",
    requires=ONE_MASK,
    dtypes=DTYPES,
    conventions={"empty_row": "zeros"},
    package="diffusers",
    extra="diffusers",
)
def diffusers_multi_head(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """Attention of diffusers with AttnProcessor2_0, by scaled_dot_product_attention."""
    return called(x, context, (wq, wk, wv, wo), (bq, bk, bv, bo), heads, mask, "AttnProcessor2_0")


@adapter(
    "multi_head",
    requires=ONE_MASK,
    dtypes=DTYPES,
    conventions={"empty_row": "mean_value"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="diffusers",
    extra="diffusers",
)
def diffusers_multi_head_eager(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """Attention of diffusers with AttnProcessor, by elementary operations."""
    return called(x, context, (wq, wk, wv, wo), (bq, bk, bv, bo), heads, mask, "AttnProcessor")
