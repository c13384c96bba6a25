"""The attention function of JAX.

Documentation: https://docs.jax.dev/en/latest/_autosummary/jax.nn.dot_product_attention.html
It takes [batch, length, heads, head_dim], values as wide as keys, and masks and biases of four axes.
The scores are stored in the dtype of the inputs and softmax is taken in single precision, whatever the dtype is; the
window counts positions on both sides, the query's own not among them.
The logsumexp is in the dtype of the inputs, and is left out where that has half the digits of single precision.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
GRADES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp32"}


def in_four_axes(x: Any) -> Any:
    """A mask or a bias with axes of length one in front."""
    return None if x is None else x.reshape(*(1,) * (4 - x.ndim), *x.shape)


@functools.cache
def compiled(**options: Any) -> Any:
    """The function for some options, compiled for every shape that it meets."""
    import jax

    def attend(q: Any, k: Any, v: Any, mask: Any, bias: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, bias, mask, **options)

    return jax.jit(attend)


def attention(q: Any, k: Any, v: Any, mask: Any, bias: Any, **options: Any) -> Any:
    """One call."""
    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    return compiled(**options)(*(x.swapaxes(1, 2) for x in (q, k, v)), in_four_axes(mask), in_four_axes(bias))


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
    grade=GRADES,
    compiled=True,
    slow=True,
    package="jax",
    extra="jax",
)
def jax_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """jax.nn.dot_product_attention."""
    window, length = None, max(q.shape[2], k.shape[2])  # queries may lie beyond the last key
    if window_left is not None or window_right is not None:
        window = (
            length if window_left is None else window_left,
            length if window_right is None else window_right,
        )
    out, lse = attention(
        q, k, v, mask, bias, scale=scale, is_causal=causal, local_window_size=window, return_residual=True
    )
    found = {"out": out.swapaxes(1, 2)}
    return found if q.dtype.itemsize < 4 else found | {"lse": lse.swapaxes(1, 2)}
