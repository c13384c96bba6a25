"""Native sparse attention of flash-linear-attention, its branch of selected blocks, in Triton and in torch.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops/nsa)
Queries are as many as keys, and causal; a list of blocks is for the heads that share a head of keys.
"""

# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

from .kernels import kernel


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
