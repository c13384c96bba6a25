"""The memory-efficient attention of xFormers, on CUDA devices.

Documentation: https://facebookresearch.github.io/xformers/components/ops.html
It takes [batch, length, heads, head_dim], and groups of heads on an axis of their own; what is hidden or added is one
bias, either a tensor or one of its classes, whose causal ones are aligned at the first key or at the last.
Packed items are one item of a batch, under a mask of blocks along the diagonal.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

from .. import Unsupported, adapter
from ..torch.gradients import differentiated

declared = functools.partial(
    adapter,
    dtypes=("float32", "float16", "bfloat16"),
    conventions={"causal_alignment": "bottom_right", "grouping": "block"},
    devices=("cuda",),
    package="xformers",
    extra="xformers",
)


@declared("attention")
def xformers_attention(
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
    """memory_efficient_attention of xformers.ops."""
    import torch
    from xformers.ops import fmha, memory_efficient_attention

    windowed = window_left is not None or window_right is not None
    if causal + windowed > 1 or ((causal or windowed) and (mask is not None or bias is not None)):
        raise Unsupported("one bias: causal, a window or a tensor")
    added: Any = None
    if causal:
        added = fmha.attn_bias.LowerTriangularFromBottomRightMask()
    elif windowed:
        far = q.shape[2] + k.shape[2]
        sides = [far if side is None else side for side in (window_left, window_right)]
        added = fmha.attn_bias.LocalAttentionFromBottomRightMask(window_left=sides[0], window_right=sides[1])
    elif mask is not None or bias is not None:
        nothing = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias
        added = nothing if mask is None else torch.where(mask, nothing, float("-inf"))
        added = added.expand(*q.shape[:3], k.shape[2])
    batch, heads, q_len, head_dim = q.shape
    kv_heads = k.shape[1]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if heads != kv_heads:
        group = heads // kv_heads
        q = q.reshape(batch, q_len, kv_heads, group, head_dim)
        k, v = (x[:, :, :, None].expand(-1, -1, -1, group, -1) for x in (k, v))
        if added is not None and not causal and not windowed:
            added = added.reshape(batch, kv_heads, group, q_len, -1)
    out = memory_efficient_attention(q, k, v, attn_bias=added, scale=scale)
    return out.reshape(batch, q_len, heads, -1).transpose(1, 2)


@declared("attention_gradient")
def xformers_attention_gradient(
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
    """Gradients of memory_efficient_attention of xformers.ops."""
    attend = partial(
        xformers_attention,
        causal=causal,
        mask=mask,
        scale=scale,
        window_left=window_left,
        window_right=window_right,
    )
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@declared("packed_attention")
def xformers_block_diagonal(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
) -> Any:
    """memory_efficient_attention of xformers.ops with a BlockDiagonalMask."""
    from xformers.ops import fmha, memory_efficient_attention

    if window_left is not None and not causal:
        raise Unsupported("a window goes with the causal mask")
    added: Any = fmha.attn_bias.BlockDiagonalMask.from_seqlens(q_lens.tolist(), k_lens.tolist(), device=q.device)
    if window_left is not None:
        added = added.make_local_attention_from_bottomright(window_left + 1)
    elif causal:
        added = added.make_causal_from_bottomright()
    heads, kv_heads = q.shape[1], k.shape[1]
    q, k, v = (x[None] for x in (q, k, v))
    if heads != kv_heads:
        group = heads // kv_heads
        q = q.reshape(*q.shape[:2], kv_heads, group, -1)
        k, v = (x[:, :, :, None].expand(-1, -1, -1, group, -1) for x in (k, v))
    out = memory_efficient_attention(q, k, v, attn_bias=added, scale=scale)
    return out.reshape(1, out.shape[1], heads, -1)[0]
