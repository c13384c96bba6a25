"""The gradient of JAX's softmax, by its vector-Jacobian product.

Documentation: https://docs.jax.dev/en/latest/_autosummary/jax.vjp.html and
https://docs.jax.dev/en/latest/_autosummary/jax.nn.softmax.html
It reckons in the dtype of its inputs.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter


@functools.cache
def compiled(function: Any) -> Any:
    """The pullback of a function, of a cotangent and the inputs, compiled for every shape that it meets."""
    import jax

    return jax.jit(lambda d_out, *inputs: jax.vjp(function, *inputs)[1](d_out))


@adapter(
    "softmax_gradient",
    framework="jax",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"empty_row": "nans"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    compiled=True,
    package="jax",
    extra="jax",
)
def jax_softmax_gradient(x: Any, d_out: Any) -> Any:
    """jax.vjp of jax.nn.softmax over the last axis."""
    import jax

    (d_x,) = compiled(jax.nn.softmax)(d_out, x)
    return d_x
