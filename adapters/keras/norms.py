"""The normalisations of Keras, by its operations on its torch backend.

Documentation: https://keras.io/api/ops/nn/ (layer_normalization and rms_normalization).
"""

from __future__ import annotations

import os
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def operations() -> Any:
    """keras.ops on torch, which has to be chosen before Keras is imported."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    return keras.ops


@adapter(
    "layer_norm",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "variance": "biased"},
    package="keras",
    extra="keras",
)
def keras_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-3) -> Any:
    """keras.ops.layer_normalization over the last axis."""
    return operations().layer_normalization(x, gamma=weight, beta=bias, axis=-1, epsilon=eps)


@adapter(
    "rms_norm",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    package="keras",
    extra="keras",
)
def keras_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """keras.ops.rms_normalization over the last axis."""
    return operations().rms_normalization(x, scale=weight, axis=-1, epsilon=eps)
