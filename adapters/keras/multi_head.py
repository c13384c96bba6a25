"""The attention layers of Keras on its torch backend.

Documentation: https://keras.io/api/layers/attention_layers/multi_head_attention/ and
https://keras.io/api/layers/attention_layers/group_query_attention/
Their maps have the heads as an axis of their own; a mask is one for all heads, [batch, q_len, k_len], true where a
query may see a key, and the causal flag is aligned top-left and goes with any mask.
"""

from __future__ import annotations

import functools
import random
from typing import Any

from .. import Unsupported, adapter
from .attention import operations

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {"causal_alignment": "top_left", "empty_row": "mean_value", "grouping": "block"}
declared = functools.partial(adapter, dtypes=DTYPES, package="keras", extra="keras")


@functools.lru_cache(maxsize=64)
def layer(heads: int, kv_heads: int | None, head_dim: int, shape: Any, context: Any, biased: bool, dtype: str) -> Any:
    """A layer that is built for inputs of these shapes."""
    operations("torch")
    from keras import layers

    options: Any = {"use_bias": biased, "dtype": dtype}
    state = random.getstate()
    if kv_heads is None:
        made: Any = layers.MultiHeadAttention(heads, head_dim, **options)
    else:
        made = layers.GroupQueryAttention(head_dim, heads, kv_heads, **options)
    made.build(shape, context, context)
    random.setstate(state)  # of which a new layer draws the seeds of weights that are not kept
    return made


def called(
    x: Any,
    context: Any,
    maps: tuple[Any, ...],
    biases: tuple[Any, ...],
    heads: int,
    kv_heads: int | None,
    causal: bool,
    mask: Any,
    scores: bool,
) -> Any:
    """One call of a layer with these maps, the one of the output last."""
    import torch

    dim, width = maps[0].shape
    head_dim = width // heads
    biased = any(b is not None for b in biases)
    dtype = str(x.dtype).removeprefix("torch.")
    made = layer(heads, kv_heads, head_dim, tuple(x.shape), tuple(context.shape), biased, dtype)
    groups = (heads, kv_heads or heads, kv_heads or heads)
    names = ("query", "key", "value", "output")
    with torch.no_grad():
        for name, w, b, n in zip(names, maps, biases, (*groups, 0), strict=True):
            dense = getattr(made, f"_{name}_dense")
            inner = n == 0
            dense.kernel.assign(w.reshape(heads, head_dim, dim) if inner else w.reshape(dim, n, head_dim))
            if biased:
                shape = (dim,) if inner else (n, head_dim)
                dense.bias.assign(w.new_zeros(shape) if b is None else b.reshape(shape))
        if mask is not None:
            whole = mask.reshape(*(1,) * (4 - mask.ndim), *mask.shape)
            if whole.shape[1] != 1:
                raise Unsupported("a mask is one for all heads")
            mask = whole[:, 0].expand(x.shape[0], x.shape[1], context.shape[1])
        found = made(
            x, context, attention_mask=mask, use_causal_mask=causal, return_attention_scores=scores, training=False
        )
    return found[0] if scores else found


@declared("multi_head", conventions=CONVENTIONS)
def keras_multi_head(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    causal: bool = False,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """keras.layers.MultiHeadAttention."""
    return called(x, context, (wq, wk, wv, wo), (bq, bk, bv, bo), heads, None, causal, mask, scores=False)


@declared("multi_head", conventions=CONVENTIONS | {"empty_row": "zeros"})
def keras_multi_head_scores(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    causal: bool = False,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """keras.layers.MultiHeadAttention with its scores asked for."""
    return called(x, context, (wq, wk, wv, wo), (bq, bk, bv, bo), heads, None, causal, mask, scores=True)


@declared("multi_head", conventions=CONVENTIONS)
def keras_grouped_query(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """keras.layers.GroupQueryAttention."""
    groups = heads if kv_heads is None else kv_heads
    return called(x, context, (wq, wk, wv, wo), (bq, bk, bv, bo), heads, groups, causal, mask, scores=False)
