"""The normalisations of Flax.

Documentation: https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/normalization.html
Statistics are computed in single precision at least; by default (`use_fast_variance`) the variance is the mean square
less the square of the mean, for which the documentation promises less precision.
Modules are called under `jax.jit`, as Flax's guides call them.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
LAYER = {"eps_place": "inside", "variance": "biased"}
declared = functools.partial(adapter, framework="jax", dtypes=DTYPES, compiled=True, package="flax", extra="flax")


@functools.cache
def compiled_layer_norm(eps: float, fast: bool) -> Any:
    """A module and its call, compiled for every shape that they meet."""
    import jax
    from flax import nnx

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        module: Any = nnx.LayerNorm(
            x.shape[-1], epsilon=eps, use_fast_variance=fast, dtype=x.dtype, param_dtype=x.dtype, rngs=nnx.Rngs(0)
        )
        module.scale[...], module.bias[...] = weight, bias
        return module(x)

    return jax.jit(norm)


@functools.cache
def compiled_rms_norm(eps: float) -> Any:
    """The same of the other norm."""
    import jax
    from flax import nnx

    def norm(x: Any, weight: Any) -> Any:
        module: Any = nnx.RMSNorm(x.shape[-1], epsilon=eps, dtype=x.dtype, param_dtype=x.dtype, rngs=nnx.Rngs(0))
        module.scale[...] = weight
        return module(x)

    return jax.jit(norm)


@declared("layer_norm", conventions=LAYER)
def flax_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-6) -> Any:
    """flax.nnx.LayerNorm as it is by default."""
    return compiled_layer_norm(eps, fast=True)(x, weight, bias)


@declared("layer_norm", conventions=LAYER)
def flax_layer_norm_two_passes(x: Any, weight: Any, bias: Any, *, eps: float = 1e-6) -> Any:
    """flax.nnx.LayerNorm without its fast variance."""
    return compiled_layer_norm(eps, fast=False)(x, weight, bias)


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "plain"})
def flax_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """flax.nnx.RMSNorm."""
    return compiled_rms_norm(eps)(x, weight)


@functools.cache
def compiled_group_norm(groups: int, eps: float, fast: bool) -> Any:
    """The same of groups of channels."""
    import jax
    from flax import nnx

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        module: Any = nnx.GroupNorm(
            x.shape[-1],
            groups,
            epsilon=eps,
            use_fast_variance=fast,
            dtype=x.dtype,
            param_dtype=x.dtype,
            rngs=nnx.Rngs(0),
        )
        module.scale[...], module.bias[...] = weight, bias
        return module(x)

    return jax.jit(norm)


@declared("group_norm", layout="byxc", conventions={"grouping": "block"}, fixed={"silu": False}, slow=True)
def flax_group_norm_two_passes(x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-6) -> Any:
    """flax.nnx.GroupNorm without its fast variance."""
    return compiled_group_norm(groups, eps, False)(x, weight, bias)
