"""PyTorch's multi-head attention as a function, which its layer calls where it does not take its fast path.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html; the function takes
separate maps, [length, batch, dim], and masks that mark what to hide.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .multi_head import masks

DTYPES = ("float32", "bfloat16", "float16", "float64")


def called(
    x: Any,
    context: Any,
    maps: tuple[Any, ...],
    heads: int,
    causal: bool,
    mask: Any,
    biases: tuple[Any, ...],
    *,
    weights: bool,
) -> Any:
    """One call with separate maps, the one of the output last."""
    import torch

    dim = x.shape[-1]
    if maps[0].shape[1] != dim:
        raise Unsupported("the heads together are as wide as the model")
    wq, wk, wv, wo = (w.T for w in maps)
    bq, bk, bv, bo = (x.new_zeros(dim) if b is None else b for b in biases)
    out, _ = torch.nn.functional.multi_head_attention_forward(
        x.transpose(0, 1),
        context.transpose(0, 1),
        context.transpose(0, 1),
        dim,
        heads,
        None,
        torch.cat([bq, bk, bv]),
        None,
        None,
        False,
        0.0,
        wo,
        bo,
        training=False,
        need_weights=weights,
        use_separate_proj_weight=True,
        q_proj_weight=wq,
        k_proj_weight=wk,
        v_proj_weight=wv,
        **masks(x, context, heads, mask, causal),
    )
    return out.transpose(0, 1)


@adapter(
    "multi_head", dtypes=DTYPES, conventions={"causal_alignment": "top_left", "empty_row": "zeros"}, package="torch"
)
def torch_multi_head_forward(
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
    """torch.nn.functional.multi_head_attention_forward without weights, by scaled_dot_product_attention."""
    return called(x, context, (wq, wk, wv, wo), heads, causal, mask, (bq, bk, bv, bo), weights=False)


@adapter(
    "multi_head",
    dtypes=DTYPES,
    conventions={"causal_alignment": "top_left", "empty_row": "nans"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="torch",
)
def torch_multi_head_forward_weights(
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
    """torch.nn.functional.multi_head_attention_forward with its weights asked for."""
    return called(x, context, (wq, wk, wv, wo), heads, causal, mask, (bq, bk, bv, bo), weights=True)
