"""The normalisations of Flax.

Documentation: https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/normalization.html
Statistics are computed in single precision at least; by default (`use_fast_variance`) the variance is the mean square
less the square of the mean, for which the documentation promises less precision.
"""

from __future__ import annotations

from typing import Any

from . import adapter

DTYPES = ("float32", "bfloat16", "float16")
LAYER = {"eps_place": "inside", "variance": "biased"}


def layer_norm(x: Any, weight: Any, bias: Any, eps: float, fast: bool) -> Any:
    """One call of the module."""
    import jax
    import numpy as np
    from flax import nnx

    module: Any = nnx.LayerNorm(
        x.shape[-1], epsilon=eps, use_fast_variance=fast, dtype=x.dtype, param_dtype=x.dtype, rngs=nnx.Rngs(0)
    )
    module.scale[...], module.bias[...] = jax.numpy.asarray(weight), jax.numpy.asarray(bias)
    return np.array(module(jax.numpy.asarray(x)))


@adapter("layer_norm", framework="numpy", dtypes=DTYPES, conventions=LAYER, package="flax", extra="flax", slow=True)
def flax_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-6) -> Any:
    """flax.nnx.LayerNorm as it is by default."""
    return layer_norm(x, weight, bias, eps, fast=True)


@adapter("layer_norm", framework="numpy", dtypes=DTYPES, conventions=LAYER, package="flax", extra="flax", slow=True)
def flax_layer_norm_two_passes(x: Any, weight: Any, bias: Any, *, eps: float = 1e-6) -> Any:
    """flax.nnx.LayerNorm without its fast variance."""
    return layer_norm(x, weight, bias, eps, fast=False)


@adapter(
    "rms_norm",
    framework="numpy",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    package="flax",
    extra="flax",
    slow=True,
)
def flax_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """flax.nnx.RMSNorm."""
    import jax
    import numpy as np
    from flax import nnx

    module: Any = nnx.RMSNorm(x.shape[-1], epsilon=eps, dtype=x.dtype, param_dtype=x.dtype, rngs=nnx.Rngs(0))
    module.scale[...] = jax.numpy.asarray(weight)
    return np.array(module(jax.numpy.asarray(x)))
