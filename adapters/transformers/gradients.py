"""The gradients of normalisations of models in Hugging Face transformers, by PyTorch's automatic differentiation.

Source: transformers/models/*/modeling_*.py, by the names of the classes below; see transformers_norms.
Llama's stores the normalised row in the dtype of the input and weights that, so that the cotangent of the normalised
row is stored in it too.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .norms import DTYPES, GRADE


def of_module(module: Any, x: Any, weight: Any, d_out: Any) -> dict[str, Any]:
    """The gradients of a module as a function of its input and its weight."""
    import torch

    def applied(x: Any, weight: Any) -> Any:
        return torch.func.functional_call(module, {"weight": weight}, (x,))

    return differentiated(applied, d_out, x=x, weight=weight)


@adapter(
    "rms_norm_gradient",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    grade=GRADE,
    package="transformers",
    extra="transformers",
)
def llama_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-6) -> dict[str, Any]:
    """LlamaRMSNorm of transformers.models.llama."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return of_module(LlamaRMSNorm(x.shape[-1], eps=eps), x, weight, d_out)


@adapter(
    "rms_norm_gradient",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "one_plus"},
    grade=GRADE,
    package="transformers",
    extra="transformers",
)
def gemma_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-6) -> dict[str, Any]:
    """GemmaRMSNorm of transformers.models.gemma."""
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

    return of_module(GemmaRMSNorm(x.shape[-1], eps=eps), x, weight, d_out)


@adapter(
    "gated_rms_norm_gradient",
    dtypes=DTYPES,
    fixed={"norm_before_gate": False, "activation": "silu"},
    grade=GRADE,
    package="transformers",
    extra="transformers",
)
def mamba2_gated_rms_norm_gradient(
    x: Any, gate: Any, weight: Any, d_out: Any, *, groups: int = 1, eps: float = 1e-6
) -> dict[str, Any]:
    """MambaRMSNormGated of transformers.models.mamba2."""
    import torch
    from transformers.models.mamba2.modeling_mamba2 import MambaRMSNormGated

    module = MambaRMSNormGated(x.shape[-1], x.shape[-1] // groups, eps=eps)

    def applied(x: Any, gate: Any, weight: Any) -> Any:
        return torch.func.functional_call(module, {"weight": weight}, (x, gate))

    return differentiated(applied, d_out, x=x, gate=gate, weight=weight)
