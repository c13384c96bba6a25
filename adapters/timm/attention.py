"""The attention layer of timm's vision transformers, fused and by elementary operations.

Source: https://github.com/huggingface/pytorch-image-models, timm/layers/attention.py (Attention).
The layer projects one input to queries, keys and values; here its maps are left out, and its attention stands alone.
A mask is boolean, or is added; the causal flag is given without one.
"""

# Where the package is not installed, its name is taken for that of this folder.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")


def attended(q: Any, k: Any, v: Any, causal: bool, mask: Any, bias: Any, fused: bool) -> Any:
    """One call of a layer."""
    import torch
    from timm.layers import Attention

    if not q.shape == k.shape == v.shape:
        raise Unsupported("every token has one query, one key and one value, of the same size")
    if causal + (mask is not None) + (bias is not None) > 1:
        raise Unsupported("one of a mask, a bias and the causal flag")
    _, heads, _, head_dim = q.shape
    layer = new_layer(Attention, heads * head_dim, heads).eval()
    layer.qkv = layer.proj = torch.nn.Identity()
    layer.fused_attn = fused
    tokens = torch.stack([q, k, v], dim=2).permute(0, 3, 2, 1, 4).flatten(2)
    out = layer(tokens, attn_mask=bias if mask is None else mask, is_causal=causal)
    return out.unflatten(-1, (heads, head_dim)).transpose(1, 2)


@adapter("attention", dtypes=DTYPES, conventions={"empty_row": "zeros"}, package="timm", extra="timm")
def timm_attention(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None) -> Any:
    """Attention of timm by scaled_dot_product_attention."""
    return attended(q, k, v, causal, mask, bias, fused=True)


@adapter(
    "attention",
    dtypes=DTYPES,
    conventions={"empty_row": "nans"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="timm",
    extra="timm",
)
def timm_attention_eager(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None) -> Any:
    """Attention of timm by elementary operations, as without fused attention."""
    return attended(q, k, v, causal, mask, bias, fused=False)
