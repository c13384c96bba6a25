"""The normalisations of models in Hugging Face transformers.

Source: transformers/models/llama/modeling_llama.py (LlamaRMSNorm) and
transformers/models/gemma/modeling_gemma.py (GemmaRMSNorm).
Both reckon in single precision, whatever the dtype is. Llama's stores the normalised row in the dtype of the input and
weights that; Gemma's adds one to the weight and stores the result alone.
"""

from __future__ import annotations

from typing import Any

from . import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
GRADE = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp32"}


def applied(module: Any, x: Any, weight: Any) -> Any:
    """A module with the given weight, applied."""
    import torch

    module.weight = torch.nn.Parameter(weight, requires_grad=False)
    return module(x)


@adapter(
    "rms_norm",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    grade=GRADE,
    package="transformers",
    extra="transformers",
)
def llama_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """LlamaRMSNorm of transformers.models.llama."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return applied(LlamaRMSNorm(x.shape[-1], eps=eps), x, weight)


@adapter(
    "rms_norm",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "one_plus"},
    grade=GRADE,
    package="transformers",
    extra="transformers",
)
def gemma_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """GemmaRMSNorm of transformers.models.gemma."""
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

    return applied(GemmaRMSNorm(x.shape[-1], eps=eps), x, weight)
