"""A cache of flash-attn that is fed in chunks, on CUDA devices.

Documentation: https://github.com/Dao-AILab/flash-attention (flash_attn_with_kvcache)
The call writes the keys and values of a chunk behind those that the cache has, and its queries see both, causally.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import adapter


def in_chunks(
    attend: Callable[..., Any], q: Any, k: Any, v: Any, chunks: tuple[int, ...], capacity: int | None, kept: Any = None
) -> Any:
    """The outputs of all chunks [batch, heads, length, head_dim]; `ValueError` for more tokens than slots."""
    import torch

    batch, length = q.shape[0], q.shape[2]
    own = torch.tensor(chunks, dtype=torch.int32, device=q.device)
    advances = own.expand(batch, -1) if kept is None else kept.int()
    needed = int((advances.cumsum(1) - advances + own).max()) if batch else length
    room = length if capacity is None else capacity
    if room < needed:
        raise ValueError(f"{needed} tokens do not fit into {room} slots")
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    keys, values = (x.new_empty(batch, room, *x.shape[2:]) for x in (k, v))
    outs, start, filled = [], 0, torch.zeros(batch, dtype=torch.int32, device=q.device)
    for n, advance in zip(chunks, advances.T, strict=True):
        part = slice(start, start + n)
        outs.append(attend(q[:, part], keys, values, k=k[:, part], v=v[:, part], cache_seqlens=filled))
        filled, start = filled + advance, start + n
    return torch.cat(outs, 1).transpose(1, 2)


@adapter(
    "cached_attention",
    requires="value_dim == head_dim",
    dtypes=("float16", "bfloat16"),
    conventions={"grouping": "block"},
    limits={"head_dim": range(1, 257)},
    devices=("cuda",),
    package="flash_attn",
    extra="flash-attn",
)
def flash_attention_cached(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    kept: Any = None,
    capacity: int | None = None,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """flash_attn_with_kvcache of flash-attn, which writes the keys and values of a chunk into the cache."""
    from flash_attn import flash_attn_with_kvcache

    sides = (-1 if window_left is None else window_left, -1)
    attend = partial(flash_attn_with_kvcache, softmax_scale=scale, causal=True, window_size=sides)
    return in_chunks(attend, q, k, v, chunks, capacity, kept)
