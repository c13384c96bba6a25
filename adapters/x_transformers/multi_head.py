"""Multi-head attention of the package x-transformers.

Source: https://github.com/lucidrains/x-transformers (x_transformers.x_transformers.Attention).
It has no biases, its masks are of keys or of queries and keys, and heads of keys are taken in turns.
A query from which a mask hides everything returns zeros.
With one head it has no output map unless one is asked for.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")
CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "tiled"}


def called(
    x: Any,
    context: Any,
    maps: tuple[Any, ...],
    heads: int,
    kv_heads: int | None,
    causal: bool,
    mask: Any,
    *,
    flash: bool,
) -> Any:
    """One call of a layer with these maps, the one of the output last."""
    import torch
    from x_transformers.x_transformers import Attention

    dim, width = maps[0].shape
    options = {"kv_heads": kv_heads, "causal": causal, "flash": flash, "project_out": True}
    made = new_layer(Attention, dim, width // heads, heads=heads, **options)
    made = made.to(x.device, x.dtype).eval()
    projections = (made.to_q, made.to_k, made.to_v, made.to_out)
    with torch.no_grad():
        for projection, w in zip(projections, maps, strict=True):
            projection.weight.copy_(w.T)
        if mask is None:
            return made(x, context)
        if mask.ndim == 4 and mask.shape[1] == mask.shape[2] == 1:
            return made(x, context, context_mask=mask[:, 0, 0].expand(x.shape[0], context.shape[1]))
        whole = mask.expand(*([x.shape[0], heads][-mask.ndim :] if mask.ndim > 2 else []), x.shape[1], context.shape[1])
        return made(x, context, attn_mask=whole)


@adapter(
    "multi_head",
    dtypes=DTYPES,
    grade={"float64": "fp32"},
    conventions=CONVENTIONS,
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_multi_head(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    mask: Any = None,
) -> Any:
    """x_transformers.Attention, composed of elementary operations; the softmax is taken in float32."""
    return called(x, context, (wq, wk, wv, wo), heads, kv_heads, causal, mask, flash=False)


@adapter("multi_head", dtypes=DTYPES, conventions=CONVENTIONS, package="x_transformers", extra="x-transformers")
def x_transformers_multi_head_flash(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    mask: Any = None,
) -> Any:
    """x_transformers.Attention with flash, by scaled_dot_product_attention."""
    return called(x, context, (wq, wk, wv, wo), heads, kv_heads, causal, mask, flash=True)
