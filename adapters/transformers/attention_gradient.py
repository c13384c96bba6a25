"""The gradients of the attention functions that the models of Hugging Face transformers share.

Source: transformers/models/llama/modeling_llama.py (eager_attention_forward) and
transformers/integrations/sdpa_attention.py (sdpa_attention_forward).
What eager attention hides has the lowest finite number added to its score, so that a query that sees nothing takes a
mean, and gradients flow through its scores.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import DTYPES, transformers_eager, transformers_sdpa


@adapter(
    "attention_gradient",
    dtypes=DTYPES,
    conventions={"empty_row": "mean_score", "grouping": "block"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"},
    package="transformers",
    extra="transformers",
)
def transformers_eager_gradient(
    q: Any, k: Any, v: Any, d_out: Any, *, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """Gradients of eager_attention_forward of transformers.models.llama."""
    attend = partial(transformers_eager, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@adapter(
    "attention_gradient",
    dtypes=DTYPES,
    conventions={"causal_alignment": "top_left", "empty_row": "zeros", "grouping": "block"},
    package="transformers",
    extra="transformers",
)
def transformers_sdpa_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of sdpa_attention_forward of transformers.integrations."""
    attend = partial(transformers_sdpa, causal=causal, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)
