"""The fused normalisations of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/fast.html
Statistics are computed in single precision, whatever the dtype is.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "float16")


@adapter(
    "layer_norm",
    framework="mlx",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "variance": "biased"},
    package="mlx",
    extra="mlx",
)
def mlx_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """mlx.core.fast.layer_norm."""
    import mlx.core as mx

    return mx.fast.layer_norm(x, weight, bias, eps)


@adapter(
    "rms_norm",
    framework="mlx",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    package="mlx",
    extra="mlx",
)
def mlx_rms_norm(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """mlx.core.fast.rms_norm."""
    import mlx.core as mx

    return mx.fast.rms_norm(x, weight, eps)
