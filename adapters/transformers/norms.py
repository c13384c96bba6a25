"""The normalisations of models in Hugging Face transformers.

Source: transformers/models/*/modeling_*.py, by the names of the classes below.
All reckon in single precision, whatever the dtype is. Llama's and T5's store the normalised row in the dtype of the
input and weight that, and OLMo 2's stores the weighted row alone; those of Gemma add one to the weight.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
GRADE = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp32"}
declared = functools.partial(adapter, dtypes=DTYPES, grade=GRADE, package="transformers", extra="transformers")


def applied(module: Any, x: Any, weight: Any) -> Any:
    """A module with the given weight, applied."""
    import torch

    module.weight = torch.nn.Parameter(weight, requires_grad=False)
    return module(x)


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "plain"})
def llama_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """LlamaRMSNorm of transformers.models.llama."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return applied(LlamaRMSNorm(x.shape[-1], eps=eps), x, weight)


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "plain"})
def t5_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """T5LayerNorm of transformers.models.t5."""
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    return applied(T5LayerNorm(x.shape[-1], eps=eps), x, weight)


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "plain"})
def olmo2_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """Olmo2RMSNorm of transformers.models.olmo2."""
    from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm

    return applied(Olmo2RMSNorm(x.shape[-1], eps=eps), x, weight)


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "one_plus"})
def gemma_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """GemmaRMSNorm of transformers.models.gemma."""
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

    return applied(GemmaRMSNorm(x.shape[-1], eps=eps), x, weight)


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "one_plus"})
def gemma2_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """Gemma2RMSNorm of transformers.models.gemma2."""
    from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm

    return applied(Gemma2RMSNorm(x.shape[-1], eps=eps), x, weight)
