"""The attention function of Keras, on its torch backend and on its JAX backend.

Documentation: https://keras.io/api/ops/nn/ (dot_product_attention).
It takes [batch, length, heads, head_dim], and values of the shape of the keys.
The backend is chosen once in a process, before Keras is imported.
On JAX the function is compiled, as Keras compiles its models there.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16")


def operations(backend: str) -> Any:
    """keras.ops on a backend, if no other has been chosen in this process."""
    os.environ.setdefault("KERAS_BACKEND", backend)
    import keras

    if keras.backend.backend() != backend:
        raise Unsupported(f"in this process Keras runs on {keras.backend.backend()}, not on {backend}")
    return keras.ops


def attention(function: Any, q: Any, k: Any, v: Any, **options: Any) -> Any:
    """One call, in the layout of Keras and back."""
    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    return function(*(x.swapaxes(1, 2) for x in (q, k, v)), **options).swapaxes(1, 2)


@functools.cache
def compiled(attend: Any) -> Any:
    """The function on JAX, compiled for every shape that it meets."""
    import jax

    return jax.jit(attend, static_argnames=("scale", "is_causal"))


@adapter(
    "attention",
    requires=("value_dim == head_dim", "single(mask) or single(bias)"),
    dtypes=DTYPES,
    conventions={
        "causal_alignment": "top_left",
        "empty_row": "mean_value",
        "empty_bias_row": "zero_row",
        "grouping": "block",
    },
    package="keras",
    extra="keras",
)
def keras_attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """keras.ops.dot_product_attention on torch."""
    if mask is not None and bias is not None:
        raise Unsupported("one of mask and bias on this backend")
    attend = operations("torch").dot_product_attention
    return attention(attend, q, k, v, is_causal=causal, mask=mask, bias=bias, scale=scale)


@adapter(
    "attention",
    requires="value_dim == head_dim",
    framework="jax",
    dtypes=DTYPES,
    conventions={
        "causal_alignment": "top_left",
        "empty_row": "mean_value",
        "empty_bias_row": "nan_row",
        "grouping": "block",
    },
    compiled=True,
    slow=True,
    package="keras",
    extra="keras",
)
def keras_attention_jax(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """keras.ops.dot_product_attention on JAX."""
    attend = compiled(operations("jax").dot_product_attention)
    return attention(attend, q, k, v, is_causal=causal, mask=mask, bias=bias, scale=scale)
