"""The attention layer of the encoder-decoder models of Hugging Face transformers, as BART has it.

Source: transformers/models/bart/modeling_bart.py (BartAttention).
Its maps are linear layers of their own, with biases; its masks are boolean for scaled_dot_product_attention, and for
the eager function added, filled with the lowest finite number, as `transformers.masking_utils.eager_mask` does.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .. import Unsupported, adapter
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")
NAIVE = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"}


def layer(maps: tuple[Any, ...], biases: tuple[Any, ...], heads: int, implementation: str) -> Any:
    """A BartAttention with these maps, the one of the output last."""
    import torch
    from transformers.models.bart.modeling_bart import BartAttention

    dim = maps[0].shape[0]
    if maps[0].shape[1] != dim:
        raise Unsupported("the heads together are as wide as the model")
    config: Any = SimpleNamespace(_attn_implementation=implementation)
    made = new_layer(BartAttention, dim, heads, config=config).to(maps[0].device, maps[0].dtype).eval()
    projections = (made.q_proj, made.k_proj, made.v_proj, made.out_proj)
    with torch.no_grad():
        for projection, w, b in zip(projections, maps, biases, strict=True):
            projection.weight.copy_(w.T)
            projection.bias.zero_() if b is None else projection.bias.copy_(b)
    return made


@adapter(
    "multi_head",
    dtypes=DTYPES,
    conventions={"empty_row": "mean_value"},
    grade=NAIVE,
    package="transformers",
    extra="transformers",
)
def transformers_bart_eager(
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
    """BartAttention with eager_attention_forward."""
    import torch

    made = layer((wq, wk, wv, wo), (bq, bk, bv, bo), heads, "eager")
    if mask is not None:
        mask = torch.where(mask, torch.zeros((), dtype=x.dtype, device=x.device), torch.finfo(x.dtype).min)
    return made(x, context, attention_mask=mask)[0].detach()


@adapter("multi_head", dtypes=DTYPES, conventions={"empty_row": "zeros"}, package="transformers", extra="transformers")
def transformers_bart_sdpa(
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
    """BartAttention with sdpa_attention_forward."""
    made = layer((wq, wk, wv, wo), (bq, bk, bv, bo), heads, "sdpa")
    return made(x, context, attention_mask=mask)[0].detach()
