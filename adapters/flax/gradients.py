"""The gradients of Flax's normalisations, by JAX's vector-Jacobian products.

Documentation: https://docs.jax.dev/en/latest/_autosummary/jax.vjp.html and
https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/normalization.html
Statistics are those of the row in single precision, which is normalised itself: what comes back along the two uses of
the row is rounded to its dtype before it is added.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..jax.softmax_gradient import compiled
from .norms import DTYPES, LAYER, compiled_layer_norm, compiled_rms_norm

GRADES = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"}


@adapter(
    "rms_norm_gradient",
    framework="jax",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    grade=GRADES,
    compiled=True,
    package="flax",
    extra="flax",
)
def flax_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-6) -> dict[str, Any]:
    """jax.vjp of flax.nnx.RMSNorm."""
    d_x, d_weight = compiled(compiled_rms_norm(eps))(d_out, x, weight)
    return {"d_x": d_x, "d_weight": d_weight}


@adapter(
    "layer_norm_gradient",
    framework="jax",
    dtypes=DTYPES,
    conventions=LAYER,
    grade=GRADES,
    compiled=True,
    package="flax",
    extra="flax",
)
def flax_layer_norm_gradient_two_passes(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-6) -> dict[str, Any]:
    """jax.vjp of flax.nnx.LayerNorm without its fast variance."""
    gradients = compiled(compiled_layer_norm(eps, fast=False))(d_out, x, weight, 0 * weight)
    return dict(zip(("d_x", "d_weight", "d_bias"), gradients, strict=True))
