"""The gradients of normalisations of models in Hugging Face transformers, by PyTorch's automatic differentiation.

Source: transformers/models/*/modeling_*.py, by the names of the classes below; see transformers_norms.
Llama's stores the normalised row in the dtype of the input and weights that, so that the cotangent of the normalised
row is stored in it too.
"""

from __future__ import annotations

from typing import Any

from ..torch.gradients import differentiated
from .norms import declared


def of_module(module: Any, weight: Any, d_out: Any, **inputs: Any) -> dict[str, Any]:
    """The gradients of a module as a function of its inputs, in their order, and its weight."""
    import torch

    def applied(weight: Any, **inputs: Any) -> Any:
        return torch.func.functional_call(module, {"weight": weight}, tuple(inputs.values()))

    return differentiated(applied, d_out, **inputs, weight=weight)


@declared("rms_norm_gradient", conventions={"eps_place": "inside", "weight_form": "plain"})
def llama_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-6) -> dict[str, Any]:
    """LlamaRMSNorm of transformers.models.llama."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return of_module(LlamaRMSNorm(x.shape[-1], eps=eps), weight, d_out, x=x)


@declared("rms_norm_gradient", conventions={"eps_place": "inside", "weight_form": "one_plus"})
def gemma_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-6) -> dict[str, Any]:
    """GemmaRMSNorm of transformers.models.gemma."""
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

    return of_module(GemmaRMSNorm(x.shape[-1], eps=eps), weight, d_out, x=x)


@declared("gated_rms_norm_gradient", fixed={"norm_before_gate": False, "activation": "silu"})
def mamba2_gated_rms_norm_gradient(
    x: Any, gate: Any, weight: Any, d_out: Any, *, groups: int = 1, eps: float = 1e-6
) -> dict[str, Any]:
    """MambaRMSNormGated of transformers.models.mamba2."""
    from transformers.models.mamba2.modeling_mamba2 import MambaRMSNormGated

    module = MambaRMSNormGated(x.shape[-1], x.shape[-1] // groups, eps=eps)
    return of_module(module, weight, d_out, x=x, gate=gate)
