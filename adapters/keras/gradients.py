"""The gradients of Keras's normalisations on its torch backend, by PyTorch's automatic differentiation.

Documentation: https://keras.io/api/ops/nn/ (layer_normalization and rms_normalization).
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .norms import DTYPES, operations


@adapter(
    "rms_norm_gradient",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    package="keras",
    extra="keras",
)
def keras_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-6) -> dict[str, Any]:
    """keras.ops.rms_normalization over the last axis."""

    def rms_norm(x: Any, weight: Any) -> Any:
        return operations().rms_normalization(x, scale=weight, axis=-1, epsilon=eps)

    return differentiated(rms_norm, d_out, x=x, weight=weight)


@adapter(
    "layer_norm_gradient",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "variance": "biased"},
    package="keras",
    extra="keras",
)
def keras_layer_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-3) -> dict[str, Any]:
    """keras.ops.layer_normalization over the last axis."""

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return operations().layer_normalization(x, gamma=weight, beta=bias, axis=-1, epsilon=eps)

    return differentiated(layer_norm, d_out, x=x, weight=weight, bias=0 * weight)
