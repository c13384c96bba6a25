"""Adaptive layer norms of diffusers.

Documentation: https://huggingface.co/docs/diffusers/api/normalization
Scale and shift are projected from an embedding; here the projection returns what it is given.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..controls.modulated_norms import fitting
from ..torch.layers import given

DECLARED: dict[str, Any] = {
    "layout": "bn",
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "diffusers",
    "extra": "diffusers",
}


@adapter("modulated_norm", **DECLARED)
def diffusers_ada_layer_norm_continuous(
    x: Any, scales: Any, shifts: Any, *, rms: bool = False, eps: float = 1e-5
) -> Any:
    """AdaLayerNormContinuous without parameters of its norm, which is either one."""
    import torch
    from diffusers.models.normalization import AdaLayerNormContinuous

    fitting(x, scales[:, None], shifts[:, None])
    with torch.device("meta"):
        module = AdaLayerNormContinuous(
            x.shape[-1], 1, elementwise_affine=False, eps=eps, norm_type="rms_norm" if rms else "layer_norm"
        )
    module.linear = given(torch.cat((scales, shifts), 1))
    return module(x, x.new_zeros(len(x), 1))


@adapter("modulated_norm", fixed={"rms": False, "eps": 1e-6}, **DECLARED)
def diffusers_ada_layer_norm_zero(x: Any, scales: Any, shifts: Any) -> Any:
    """AdaLayerNormZero, whose gates and second pair are not used."""
    import torch
    from diffusers.models.normalization import AdaLayerNormZero

    fitting(x, scales[:, None], shifts[:, None])
    with torch.device("meta"):
        module = AdaLayerNormZero(x.shape[-1])
    module.linear = given(torch.cat((shifts, scales, *(torch.zeros_like(shifts) for _ in range(4))), 1))
    return module(x, emb=x.new_zeros(len(x), 1))[0]
