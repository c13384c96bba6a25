"""PyTorch's multi-head attention layer: with the weights asked for, without them, and by its fast path.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
Its maps are stored transposed, those of queries, keys and values in one matrix, and its masks mark what to hide.
A mask of two axes, one for each item and head, and one of padding are three arguments; the causal flag is a hint that
goes with a causal mask of the top-left alignment.
The fast path takes one tensor for queries, keys and values, an even number of heads, and no gradients.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")


def layer(wq: Any, wk: Any, wv: Any, wo: Any, heads: int, biases: tuple[Any, ...], always: bool) -> Any:
    """The layer with these maps; with biases if there are any, or always."""
    import torch
    from torch.nn.utils import skip_init

    dim = wq.shape[0]
    if wq.shape[1] != dim:
        raise Unsupported("the heads together are as wide as the model")
    biased = always or any(b is not None for b in biases)
    kind = torch.nn.MultiheadAttention
    made: Any = skip_init(kind, dim, heads, bias=biased, batch_first=True, dtype=wq.dtype, device=wq.device).eval()
    with torch.no_grad():
        made.in_proj_weight.copy_(torch.cat([wq.T, wk.T, wv.T]))
        made.out_proj.weight.copy_(wo.T)
        if biased:
            bq, bk, bv, bo = (wq.new_zeros(dim) if b is None else b for b in biases)
            made.in_proj_bias.copy_(torch.cat([bq, bk, bv]))
            made.out_proj.bias.copy_(bo)
    return made


def masks(x: Any, context: Any, heads: int, mask: Any, causal: bool) -> dict[str, Any]:
    """What hides positions, as the arguments of the layer; true where a position is hidden."""
    import torch

    q_len, k_len = x.shape[1], context.shape[1]
    future = torch.ones(q_len, k_len, dtype=torch.bool, device=x.device).triu(1) if causal else None
    if mask is None:
        return {} if future is None else {"attn_mask": future, "is_causal": True}
    if mask.ndim == 4 and mask.shape[1] == mask.shape[2] == 1:
        padding = ~mask[:, 0, 0].expand(x.shape[0], k_len)
        return {"key_padding_mask": padding, **({} if future is None else {"attn_mask": future})}
    hidden = ~mask if future is None else ~mask | future
    if mask.ndim == 2:
        return {"attn_mask": hidden.expand(q_len, k_len)}
    return {"attn_mask": hidden.expand(x.shape[0], heads, q_len, k_len).reshape(-1, q_len, k_len)}


@adapter(
    "multi_head", dtypes=DTYPES, conventions={"causal_alignment": "top_left", "empty_row": "zeros"}, package="torch"
)
def torch_multi_head(
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
    """torch.nn.MultiheadAttention without weights, by scaled_dot_product_attention."""
    made = layer(wq, wk, wv, wo, heads, (bq, bk, bv, bo), always=False)
    return made(x, context, context, need_weights=False, **masks(x, context, heads, mask, causal))[0].detach()


@adapter(
    "multi_head",
    dtypes=DTYPES,
    conventions={"causal_alignment": "top_left", "empty_row": "nans"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="torch",
)
def torch_multi_head_weights(
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
    """torch.nn.MultiheadAttention with its weights asked for, by elementary operations."""
    made = layer(wq, wk, wv, wo, heads, (bq, bk, bv, bo), always=False)
    return made(x, context, context, need_weights=True, **masks(x, context, heads, mask, causal))[0].detach()


@adapter(
    "multi_head",
    requires=("q_len == k_len", "identical(x, context)", "heads % 2 == 0"),
    dtypes=("float32", "float64"),
    package="torch",
)
def torch_multi_head_fast(
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
    """torch.nn.MultiheadAttention by its fast path, for self-attention with an even number of heads."""
    import torch

    if x.shape != context.shape or not torch.equal(x, context):
        raise Unsupported("the fast path is for self-attention")
    if heads % 2:
        raise Unsupported("the fast path takes an even number of heads")
    made = layer(wq, wk, wv, wo, heads, (bq, bk, bv, bo), always=True)
    with torch.inference_mode():
        return made(x, x, x, need_weights=False, **masks(x, x, heads, mask, causal))[0].clone()
