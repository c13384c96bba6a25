"""The attention functions of Flax, of its module systems Linen and NNX.

Documentation: https://flax.readthedocs.io/en/latest/api_reference/flax.linen/layers.html#flax.linen.dot_product_attention
and https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/attention.html
Both take [batch, length, heads, head_dim] and have no scale; Linen reckons in the dtype of its inputs and stores every
step in it, and NNX hands over to jax.nn.dot_product_attention, whose softmax is taken in single precision.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter
from ..jax.attention import in_four_axes

DTYPES = ("float32", "bfloat16", "float16", "float64")


@functools.cache
def compiled(system: str, **options: Any) -> Any:
    """The function of a module system for some options, compiled for every shape that it meets."""
    import flax
    import flax.nnx
    import jax

    def attend(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> Any:
        return getattr(flax, system).dot_product_attention(q, k, v, bias, mask, **options)

    return jax.jit(attend)


def attention(system: str, *arrays: Any, **options: Any) -> Any:
    """One call of queries, keys, values, a bias and a mask."""
    *qkv, bias, mask = arrays
    whole = map(in_four_axes, (bias, mask))
    return compiled(system, **options)(*(x.swapaxes(1, 2) for x in qkv), *whole).swapaxes(1, 2)


@adapter(
    "attention",
    framework="jax",
    dtypes=DTYPES,
    conventions={"empty_row": "mean_value", "empty_bias_row": "nan_row"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    compiled=True,
    slow=True,
    package="flax",
    extra="flax",
)
def flax_linen_attention(q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None) -> Any:
    """flax.linen.dot_product_attention."""
    if q.shape[1] != k.shape[1]:
        raise Unsupported("as many heads of keys as of queries")
    return attention("linen", q, k, v, bias, mask)


@adapter(
    "attention",
    framework="jax",
    dtypes=DTYPES,
    conventions={
        "causal_alignment": "top_left",
        "empty_row": "mean_value",
        "empty_bias_row": "nan_row",
        "grouping": "block",
    },
    grade={"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp32"},
    compiled=True,
    slow=True,
    package="flax",
    extra="flax",
)
def flax_nnx_attention(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None) -> Any:
    """flax.nnx.dot_product_attention."""
    return attention("nnx", q, k, v, bias, mask, is_causal=causal)
