"""The softmax of JAX.

Documentation: https://docs.jax.dev/en/latest/_autosummary/jax.nn.softmax.html
It reckons in the dtype of its inputs.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter


@functools.cache
def compiled() -> Any:
    """The function over the last axis, compiled for every shape that it meets."""
    import jax

    return jax.jit(jax.nn.softmax)


@adapter(
    "softmax",
    framework="jax",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"empty_row": "nans"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    compiled=True,
    package="jax",
    extra="jax",
)
def jax_softmax(x: Any) -> Any:
    """jax.nn.softmax over the last axis."""
    return compiled()(x)
