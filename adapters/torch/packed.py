"""Items of different lengths in PyTorch: nested tensors of both layouts, and a kernel for CUDA devices.

Documentation: https://docs.pytorch.org/docs/stable/nested.html and
https://docs.pytorch.org/docs/stable/nn.attention.varlen.html
The attention of nested tensors is that of ordinary ones, whose causal mask is aligned at the first key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
NAIVE = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"}
TOP_LEFT = {"causal_alignment": "top_left", "empty_row": "zeros", "grouping": "block"}


def cumulative(lens: Any) -> Any:
    """Where items begin, and at last where the last one ends: [items + 1]."""
    import torch

    return torch.nn.functional.pad(lens.cumsum(0), (1, 0))


def convolvable(x: Any, weight: Any, lens: Any, state: Any) -> None:
    """Refuse items of a convolution that do not belong together."""
    if len(weight) != x.shape[1] or int(lens.sum()) != len(x) or (state is not None and len(state) != len(lens)):
        raise ValueError("every channel has weights, and every item a state")


def attended(nested: list[Any], causal: bool, scale: float | None) -> Any:
    """The attention of nested tensors [items, tokens, heads, size]."""
    import torch

    states = (x.transpose(1, 2).contiguous() for x in nested)
    try:
        out = torch.nn.functional.scaled_dot_product_attention(*states, is_causal=causal, scale=scale)
    except RuntimeError as error:
        if "No viable backend" in str(error) or "not supported" in str(error):
            raise Unsupported("there is no kernel for these inputs") from None
        raise
    return out.transpose(1, 2)


def groups(kernel: Callable[..., Any], grouped: bool) -> dict[str, Any]:
    """The argument by which a kernel takes groups of heads, where there are some: before torch 2.13, none does."""
    if grouped and "enable_gqa" not in inspect.signature(kernel).parameters:
        raise Unsupported("groups of heads are taken from torch 2.13 on")
    return {"enable_gqa": True} if grouped else {}


def nestable(q: Any, k: Any) -> None:
    """Groups of heads are for ordinary tensors alone."""
    if q.shape[1] != k.shape[1]:
        raise Unsupported("there are as many heads of keys as of queries")


@adapter(
    "packed_attention", requires="heads == kv_heads", dtypes=DTYPES, conventions=TOP_LEFT, grade=NAIVE, package="torch"
)
def torch_nested_jagged(
    q: Any, k: Any, v: Any, q_lens: Any, k_lens: Any, *, causal: bool = False, scale: float | None = None
) -> Any:
    """scaled_dot_product_attention of nested tensors in the jagged layout."""
    from torch.nested import nested_tensor_from_jagged

    nestable(q, k)
    nested = [nested_tensor_from_jagged(x, cumulative(lens)) for x, lens in ((q, q_lens), (k, k_lens), (v, k_lens))]
    return attended(nested, causal, scale).values()


@adapter(
    "packed_attention", requires="heads == kv_heads", dtypes=DTYPES, conventions=TOP_LEFT, grade=NAIVE, package="torch"
)
def torch_nested_strided(
    q: Any, k: Any, v: Any, q_lens: Any, k_lens: Any, *, causal: bool = False, scale: float | None = None
) -> Any:
    """scaled_dot_product_attention of nested tensors in the strided layout."""
    import torch

    nestable(q, k)
    parts = [x.split(lens.tolist()) for x, lens in ((q, q_lens), (k, k_lens), (v, k_lens))]
    nested = [torch.nested.as_nested_tensor(list(part), layout=torch.strided) for part in parts]
    return torch.cat(list(attended(nested, causal, scale).unbind()))


@adapter(
    "packed_attention",
    requires=("value_dim == head_dim", "not causal or window_right == none"),
    dtypes=("float16", "bfloat16"),
    conventions={"causal_alignment": "bottom_right", "grouping": "block"},
    devices=("cuda",),
    package="torch",
)
def torch_varlen(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """torch.nn.attention.varlen.varlen_attn."""
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    if causal and window_right is not None:
        raise Unsupported("the causal mask is a window of nothing to the right")
    right = 0 if causal else window_right
    grouped = groups(varlen_attn, q.shape[1] != k.shape[1])
    sides = (-1 if window_left is None else window_left, -1 if right is None else right)
    out, lse = varlen_attn(
        q,
        k,
        v,
        *(cumulative(lens).int() for lens in (q_lens, k_lens)),
        *(int(lens.max()) for lens in (q_lens, k_lens)),
        return_aux=AuxRequest(lse=True),
        scale=scale,
        window_size=sides,
        **grouped,
    )
    return {"out": out, "lse": lse if lse.shape[0] == q.shape[1] else lse.T}  # documented the other way round
