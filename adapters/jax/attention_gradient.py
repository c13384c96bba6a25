"""The gradients of the attention function of JAX, by jax.vjp.

Documentation: https://docs.jax.dev/en/latest/_autosummary/jax.nn.dot_product_attention.html
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter
from .attention import DTYPES, GRADES, in_four_axes


@functools.cache
def compiled(**options: Any) -> Any:
    """The gradients for some options, compiled for every shape that they meet."""
    import jax

    def gradients(q: Any, k: Any, v: Any, bias: Any, mask: Any, d_out: Any) -> Any:
        def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
            return jax.nn.dot_product_attention(q, k, v, bias, mask, **options)

        return jax.vjp(attend, q, k, v, bias)[1](d_out)

    return jax.jit(gradients)


@adapter(
    "attention_gradient",
    requires="value_dim == head_dim",
    framework="jax",
    dtypes=DTYPES,
    conventions={"causal_alignment": "top_left", "empty_row": "mean_value", "grouping": "block"},
    grade=GRADES,
    compiled=True,
    slow=True,
    package="jax",
    extra="jax",
)
def jax_attention_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """jax.vjp of jax.nn.dot_product_attention."""
    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    window, length = None, max(q.shape[2], k.shape[2])  # queries may lie beyond the last key
    if window_left is not None or window_right is not None:
        window = tuple(length if side is None else side for side in (window_left, window_right))
    gradients = compiled(scale=scale, is_causal=causal, local_window_size=window)
    queries, keys, values, d = (x.swapaxes(1, 2) for x in (q, k, v, d_out))
    *own, d_bias = gradients(queries, keys, values, in_four_axes(bias), in_four_axes(mask), d)
    found = {name: x.swapaxes(1, 2) for name, x in zip(("d_q", "d_k", "d_v"), own, strict=True)}
    return found if bias is None else found | {"d_bias": d_bias.reshape(bias.shape)}
