"""The attention layer of the encoder-decoder models of Hugging Face transformers, as BART has it.

Source: transformers/models/bart/modeling_bart.py (BartAttention).
Its maps are linear layers of their own, with biases; its masks are boolean for scaled_dot_product_attention, and for
the eager function added, filled with the lowest finite number, as `transformers.masking_utils.eager_mask` does.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .. import module

DTYPES = ("float32", "bfloat16", "float16", "float64")
NAIVE = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"}


WEIGHTS = {
    "wq": "q_proj.weight.T",
    "wk": "k_proj.weight.T",
    "wv": "v_proj.weight.T",
    "wo": "out_proj.weight.T",
    "bq": "q_proj.bias",
    "bk": "k_proj.bias",
    "bv": "v_proj.bias",
    "bo": "out_proj.bias",
}


def eager(*, dim: int, heads: int) -> Any:
    """BartAttention with eager_attention_forward."""
    from transformers.models.bart.modeling_bart import BartAttention

    config: Any = SimpleNamespace(_attn_implementation="eager")
    return BartAttention(dim, heads, config=config)


def sdpa(*, dim: int, heads: int) -> Any:
    """BartAttention with sdpa_attention_forward."""
    from transformers.models.bart.modeling_bart import BartAttention

    config: Any = SimpleNamespace(_attn_implementation="sdpa")
    return BartAttention(dim, heads, config=config)


def added(made: Any, x: Any, context: Any, *, mask: Any = None) -> Any:
    """A call with a mask that is added."""
    import torch

    if mask is not None:
        mask = torch.where(mask, torch.zeros((), dtype=x.dtype, device=x.device), torch.finfo(x.dtype).min)
    return made(x, context, attention_mask=mask)


module(
    eager,
    "multi_head",
    name="transformers_bart_eager",
    weights=WEIGHTS,
    call=added,
    returns=0,
    requires="width == dim",
    dtypes=DTYPES,
    conventions={"empty_row": "mean_value"},
    grade=NAIVE,
    package="transformers",
    extra="transformers",
)
module(
    sdpa,
    "multi_head",
    name="transformers_bart_sdpa",
    weights=WEIGHTS,
    inputs={"x": 0, "context": 1, "mask": "attention_mask"},
    returns=0,
    requires="width == dim",
    dtypes=DTYPES,
    conventions={"empty_row": "zeros"},
    package="transformers",
    extra="transformers",
)
