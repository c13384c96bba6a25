"""Native sparse attention of flash-linear-attention, its branch of selected blocks alone and with compressed ones.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops/nsa)
Queries are as many as keys, and causal; a list of blocks is for the heads that share a head of keys.
The branch of the window wants flash-attn, and is left out; branches are added up in the dtype of the inputs.
"""

# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import Unsupported
from ..torch.gradients import differentiated
from ..triton.interpreter import declared
from .kernels import DECLARED, kernel


@kernel(
    "gathered_attention",
    fixed={"causal": True},
    limits={"group": (16,)},
    requires=("q_len == k_len", "lists == kv_heads"),
    conventions={"grouping": "block"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def fla_parallel_nsa(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    *,
    block_size: int = 1,
    causal: bool = True,
    scale: float | None = None,
) -> Any:
    """parallel_nsa with numbers of blocks that are given, and no other branch; queries are scaled in their dtype."""
    from fla.ops.nsa.parallel import parallel_nsa

    return parallel_nsa(q, k, v, block_indices=selected, block_size=block_size, scale=scale)


@kernel(
    "gathered_attention",
    fixed={"causal": True},
    requires=("q_len == k_len", "lists == kv_heads"),
    conventions={"grouping": "block"},
)
def fla_naive_nsa_selection(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    *,
    block_size: int = 1,
    causal: bool = True,
    scale: float | None = None,
) -> Any:
    """naive_nsa_selection, in torch, beside the kernels."""
    from fla.ops.nsa.naive import naive_nsa_selection

    return naive_nsa_selection(q, k, v, selected, block_size, scale)


GRADIENT: dict[str, Any] = {
    "fixed": {"causal": True},
    "requires": ("q_len == k_len", "lists == kv_heads"),
    "conventions": {"grouping": "block"},
}


def backwards(attend: Callable[..., Any], q: Any, k: Any, v: Any, d_out: Any) -> Any:
    """The gradients of a selection, each of whose outputs has one."""
    if d_out.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError("every output has a gradient")
    return differentiated(attend, d_out, q=q, k=k, v=v)


@kernel(
    "gathered_attention_gradient",
    **GRADIENT,
    limits={"group": (16,), "count": (1, 2, 4, 8, 16)},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def fla_parallel_nsa_gradient(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    d_out: Any,
    *,
    block_size: int = 1,
    causal: bool = True,
    scale: float | None = None,
) -> Any:
    """The backward pass of parallel_nsa with numbers of blocks that are given, and no other branch."""
    from fla.ops.nsa.parallel import parallel_nsa

    attend = partial(parallel_nsa, block_indices=selected, block_size=block_size, scale=scale)
    return backwards(attend, q, k, v, d_out)


@kernel("gathered_attention_gradient", **GRADIENT)
def fla_naive_nsa_selection_gradient(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    d_out: Any,
    *,
    block_size: int = 1,
    causal: bool = True,
    scale: float | None = None,
) -> Any:
    """Gradients of naive_nsa_selection, by automatic differentiation."""
    from fla.ops.nsa.naive import naive_nsa_selection

    attend = partial(naive_nsa_selection, block_indices=selected, block_size=block_size, scale=scale)
    return backwards(attend, q, k, v, d_out)


BRANCHES: dict[str, Any] = {
    "conventions": {"empty_list": "nans"},
    "limits": {"group": (16,)},
    "requires": ("q_len == k_len", "not single(selected_gate)"),
}


@kernel("native_sparse_attention", **BRANCHES)
def fla_parallel_nsa_branches(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    compressed_gate: Any = None,
    selected_gate: Any = None,
    *,
    block_size: int = 4,
    scale: float | None = None,
) -> Any:
    """parallel_nsa, in Triton, with means by mean_pooling; numbers of blocks are given."""
    from fla.ops.nsa.parallel import parallel_nsa

    if q.shape[2] < 16 * k.shape[2]:
        raise Unsupported("sixteen heads or more share a head of keys")
    gates = compressed_gate, selected_gate
    return parallel_nsa(q, k, v, *gates, block_indices=selected, block_size=block_size, scale=scale)


@kernel("native_sparse_attention", **BRANCHES)
def fla_naive_nsa_branches(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    compressed_gate: Any = None,
    selected_gate: Any = None,
    *,
    block_size: int = 4,
    scale: float | None = None,
) -> Any:
    """naive_nsa, in torch, with means by mean_pooling in Triton; numbers of blocks are given."""
    from fla.ops.nsa.naive import naive_nsa

    if q.shape[2] < 16 * k.shape[2]:
        raise Unsupported("sixteen heads or more share a head of keys")
    gates = compressed_gate, selected_gate
    return naive_nsa(q, k, v, *gates, block_indices=selected, block_size=block_size, scale=scale)


@kernel(
    "compressed_attention",
    grade={"bfloat16": "bf16", "float16": "fp16"},
    requires=(
        "q_len == k_len",
        "stride == block_size",
        "single(k_positions)",
        "single(v_positions)",
        "single(k_map)",
        "single(v_map)",
        "single(k_second)",
        "single(v_second)",
    ),
)
def fla_naive_nsa_compression(
    q: Any, k: Any, v: Any, *, stride: int, block_size: int, select_size: int, scale: float | None = None
) -> Any:
    """naive_nsa_compression, in torch, with means that the adapter takes in the dtype of the keys; no importance."""
    from fla.ops.nsa.naive import naive_nsa_compression

    whole = k.shape[1] // block_size
    means = [x[:, : whole * block_size].unflatten(1, (whole, block_size)).float().mean(2).to(x.dtype) for x in (k, v)]
    factor = q.shape[3] ** -0.5 if scale is None else scale
    return naive_nsa_compression(q, *means, block_size=block_size, scale=factor)[0]


@declared(
    "block_selection",
    fixed={"first_blocks": 1, "local_blocks": 2, "offset": 0},
    requires="all(importance > 0)",
    **{**DECLARED, "dtypes": ("float32",)},
)
def fla_naive_nsa_topk(
    importance: Any,
    *,
    count: int,
    block_size: int = 2,
    first_blocks: int = 1,
    local_blocks: int = 2,
    offset: int = 0,
) -> Any:
    """naive_nsa_topk, in torch, for scores whose exponentials are the importance; places without a block have -1."""
    import torch
    from fla.ops.nsa.naive import naive_nsa_topk

    batch, _, kv_heads, blocks = importance.shape
    if blocks * block_size < importance.shape[1]:
        raise ValueError("a query is behind the last block")
    keys = torch.eye(blocks, device=importance.device)[None, :, None].expand(batch, blocks, kv_heads, blocks)
    found = naive_nsa_topk(importance.log(), keys, block_counts=count, block_size=block_size, scale=1.0)
    places = torch.where(found < 0, blocks, found)
    chosen = torch.zeros(*importance.shape[:3], blocks + 1, dtype=torch.bool, device=importance.device)
    return chosen.scatter(3, places, True)[..., :blocks]
