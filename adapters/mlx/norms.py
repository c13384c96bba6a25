"""The fused normalisations of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/fast.html and
https://ml-explore.github.io/mlx/build/html/python/nn/_autosummary/mlx.nn.GroupNorm.html
Statistics are computed in single precision, whatever the dtype is.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "float16")
GROUPED: dict[str, Any] = {
    "framework": "mlx",
    "layout": "byxc",
    "dtypes": DTYPES,
    "fixed": {"silu": False},
    "package": "mlx",
    "extra": "mlx",
}


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


def grouped(x: Any, weight: Any, bias: Any, groups: int, eps: float, compatible: bool) -> Any:
    """mlx.nn.GroupNorm, whose channels are the last axis."""
    from mlx import nn

    layer: Any = nn.GroupNorm(groups, x.shape[-1], eps, pytorch_compatible=compatible)
    layer.weight, layer.bias = weight, bias
    return layer(x)


@adapter("group_norm", conventions={"grouping": "block"}, **GROUPED)
def mlx_group_norm(x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5) -> Any:
    """mlx.nn.GroupNorm with the groups of PyTorch."""
    return grouped(x, weight, bias, groups, eps, compatible=True)


@adapter("group_norm", conventions={"grouping": "tiled"}, grade={"float32": "fp32", "float16": "fp16_naive"}, **GROUPED)
def mlx_group_norm_by_turns(x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5) -> Any:
    """mlx.nn.GroupNorm as it is by default: channels take turns over the groups."""
    return grouped(x, weight, bias, groups, eps, compatible=False)
