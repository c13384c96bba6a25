"""The gradients of MLX's fused normalisations and softmax, by its vector-Jacobian products.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.vjp.html and
https://ml-explore.github.io/mlx/build/html/python/fast.html
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import adapter
from .attention import GRADES
from .rotary import mlx_rotary

DTYPES = ("float32", "bfloat16", "float16")
declared = functools.partial(adapter, framework="mlx", dtypes=DTYPES, package="mlx.core", extra="mlx")


def pulled_back(function: Callable[..., Any], d_out: Any, **inputs: Any) -> dict[str, Any]:
    """What a cotangent of the function's result is for each of its inputs, by their names with `d_` before."""
    import mlx.core as mx

    _, gradients = mx.vjp(function, [*inputs.values()], [d_out])
    return {f"d_{name}": gradient for name, gradient in zip(inputs, gradients, strict=True)}


@declared("rms_norm_gradient", conventions={"eps_place": "inside", "weight_form": "plain"})
def mlx_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """mlx.core.vjp of mlx.core.fast.rms_norm."""
    import mlx.core as mx

    return pulled_back(lambda x, weight: mx.fast.rms_norm(x, weight, eps), d_out, x=x, weight=weight)


@declared("layer_norm_gradient", conventions={"eps_place": "inside", "variance": "biased"})
def mlx_layer_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """mlx.core.vjp of mlx.core.fast.layer_norm."""
    import mlx.core as mx

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return mx.fast.layer_norm(x, weight, bias, eps)

    return pulled_back(layer_norm, d_out, x=x, weight=weight, bias=0 * weight)


@declared("softmax_gradient", conventions={"empty_row": "nans"}, grade=GRADES)
def mlx_softmax_gradient(x: Any, d_out: Any) -> dict[str, Any]:
    """mlx.core.vjp of mlx.core.softmax over the last axis."""
    import mlx.core as mx

    return pulled_back(lambda x: mx.softmax(x, axis=-1), d_out, x=x)


@declared("softmax_gradient", conventions={"empty_row": "nans"}, grade=GRADES)
def mlx_softmax_gradient_precise(x: Any, d_out: Any) -> dict[str, Any]:
    """mlx.core.vjp of mlx.core.softmax over the last axis with `precise`, which is said of its sum alone."""
    import mlx.core as mx

    return pulled_back(lambda x: mx.softmax(x, axis=-1, precise=True), d_out, x=x)


@declared("rotary_gradient", grade=GRADES, requires="all(positions == positions[:1] + range(size(positions)))")
def mlx_rotary_gradient(
    x: Any,
    positions: Any,
    d_out: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> dict[str, Any]:
    """mlx.core.vjp of mlx.core.fast.rope."""

    def turned(x: Any) -> Any:
        return mlx_rotary(x, positions, base=base, interleaved=interleaved, rotary_dim=rotary_dim)

    return pulled_back(turned, d_out, x=x)
