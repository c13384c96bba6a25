"""Right, but different: gradients of attention to blocks of keys as kernels and automatic differentiation have them.

`control_blocks_by_columns` is algorithm 2 of FlashAttention-2 (arXiv:2307.08691) over the columns of the layout, with
the roundings of its kernels; the others differentiate functions that pass as attention to blocks of keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import DTYPES, positions
from .block_sparse import control_blocks_as_mask, control_blocks_filled, expanded, fitting

CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


def _declared(**words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter("block_sparse_attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS | words)


@_declared()
def control_blocks_by_columns(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    d_out: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Columns of blocks, compressed to the rows that see them; weights from the logsumexp, both factors rounded."""
    import torch

    fitting(q, k, v, blocks, q_block_size, k_block_size)
    if d_out.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError("every output has a gradient")

    def narrow(x: Any) -> Any:
        return x.to(q.dtype).float()

    q_len, group, kv_heads = q.shape[2], q.shape[1] // k.shape[1], k.shape[1]
    factor = q.shape[3] ** -0.5 if scale is None else scale
    seen = expanded(blocks, q_len, k.shape[2], q_block_size, k_block_size)
    seen = seen & positions(q, k, causal, window_left, window_right)
    queries, g = q.float(), d_out.float()
    keys, values = (x.float().repeat_interleave(group, 1) for x in (k, v))
    s = (queries @ keys.mT * factor).masked_fill(~seen, -torch.inf)
    lse = s.logsumexp(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).min)
    out = narrow(narrow(torch.exp(s - lse)) @ values)
    delta = (g * out).sum(-1, keepdim=True)
    d_q, d_k, d_v = torch.zeros_like(queries), torch.zeros_like(keys), torch.zeros_like(values)
    for item, head, column in torch.cartesian_prod(*map(torch.arange, (*q.shape[:2], blocks.shape[3]))).tolist():
        past = slice(column * k_block_size, (column + 1) * k_block_size)
        at = item, head
        for row in blocks[item, head, :, column].nonzero()[:, 0].tolist():
            own = slice(row * q_block_size, (row + 1) * q_block_size)
            tile = (queries[at][own] @ keys[at][past].mT * factor).masked_fill(~seen[at][own, past], -torch.inf)
            p = torch.exp(tile - lse[at][own])
            d_s = narrow(p * (g[at][own] @ values[at][past].mT - delta[at][own]))
            d_q[at][own] += d_s @ keys[at][past] * factor
            d_k[at][past] += d_s.mT @ queries[at][own] * factor
            d_v[at][past] += narrow(p).mT @ g[at][own]
    shared = (narrow(x).unflatten(1, (kv_heads, group)).sum(2) for x in (d_k, d_v))
    return {name: x.to(q.dtype) for name, x in zip(("d_q", "d_k", "d_v"), (d_q, *shared), strict=True)}


@_declared(causal_alignment="top_left", empty_row="nans", grouping="tiled")
def control_differentiated_mask_of_blocks(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    d_out: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Automatic differentiation of a plain softmax of all scores under a dense mask."""
    options = {"scale": scale, "causal": causal, "window_left": window_left, "window_right": window_right}
    sizes = {"q_block_size": q_block_size, "k_block_size": k_block_size}
    attend = partial(control_blocks_as_mask, blocks=blocks, **sizes, **options)
    return differentiated(attend, d_out, q=q, k=k, v=v)


@_declared(empty_row="mean_value")
def control_differentiated_filled_blocks(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    d_out: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Automatic differentiation in double precision, with the lowest number in place of scores that are left out."""
    options = {"scale": scale, "causal": causal, "window_left": window_left, "window_right": window_right}
    sizes = {"q_block_size": q_block_size, "k_block_size": k_block_size}
    attend = partial(control_blocks_filled, blocks=blocks, **sizes, **options)
    return differentiated(attend, d_out, q=q, k=k, v=v)
