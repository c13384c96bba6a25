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


def applied(module: Any, x: Any, weight: Any, *gate: Any) -> Any:
    """A module with the given weight, applied to rows, and to their gate if it takes one."""
    import torch

    module.weight = torch.nn.Parameter(weight, requires_grad=False)
    return module(x, *gate)


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


@declared("gated_rms_norm", fixed={"norm_before_gate": False, "activation": "silu"})
def mamba2_gated_rms_norm(x: Any, gate: Any, weight: Any, *, groups: int = 1, eps: float = 1e-6) -> Any:
    """MambaRMSNormGated of transformers.models.mamba2, which Zamba 2 and Nemotron-H have as well."""
    from transformers.models.mamba2.modeling_mamba2 import MambaRMSNormGated

    n = x.shape[-1]
    return applied(MambaRMSNormGated(n, n // groups, eps=eps), x, weight, gate)


@declared("gated_rms_norm", fixed={"activation": "silu"})
def falcon_h1_gated_rms_norm(
    x: Any, gate: Any, weight: Any, *, groups: int = 1, norm_before_gate: bool = True, eps: float = 1e-6
) -> Any:
    """FalconH1RMSNormGated of transformers.models.falcon_h1."""
    from transformers.models.falcon_h1.modeling_falcon_h1 import FalconH1RMSNormGated

    module = FalconH1RMSNormGated(x.shape[-1], eps=eps, n_groups=groups, norm_before_gate=norm_before_gate)
    return applied(module, x, weight, gate)


@declared("gated_rms_norm", fixed={"groups": 1, "norm_before_gate": True, "activation": "silu"})
def qwen3_next_gated_rms_norm(x: Any, gate: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """Qwen3NextRMSNormGated of transformers.models.qwen3_next."""
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextRMSNormGated

    return applied(Qwen3NextRMSNormGated(x.shape[-1], eps=eps), x, weight, gate)


@declared("gated_rms_norm", fixed={"groups": 1, "norm_before_gate": True, "activation": "sigmoid"})
def kimi_linear_gated_rms_norm(x: Any, gate: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """KimiLinearRMSNormGated of transformers.models.kimi_linear."""
    from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearRMSNormGated

    return applied(KimiLinearRMSNormGated(x.shape[-1], eps=eps), x, weight, gate)
