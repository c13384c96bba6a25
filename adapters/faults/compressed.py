"""Compressed attention in chunks of blocks, and what goes wrong with windows of keys, memory and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.compressed import by_block, fitting
from .native_sparse import CHUNK, added, branches_without_rescaling
from .whole import Whole


def spread(weights: Any, overlap: Any) -> Any:
    """The importance for each query head: [batch, heads, q_len, blocks]."""
    return weights @ overlap


def in_chunks(part: Any) -> Callable[..., Any]:
    def compressed_attention(
        q: Any,
        k: Any,
        v: Any,
        k_positions: Any = None,
        v_positions: Any = None,
        k_map: Any = None,
        v_map: Any = None,
        k_second: Any = None,
        v_second: Any = None,
        *,
        stride: int,
        block_size: int,
        select_size: int,
        scale: float | None = None,
    ) -> Any:
        import torch

        fitting(q, k, v)
        group, (q_len, k_len), head_dim = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2]), q.shape[3]
        factor = head_dim**-0.5 if scale is None else scale
        keys = part.by_block(k, k_positions, k_map, k_second, stride, block_size).repeat_interleave(group, 1)
        values = part.by_block(v, v_positions, v_map, v_second, stride, block_size).repeat_interleave(group, 1)
        begin = torch.arange(keys.shape[2])[:, None] * stride
        seen = begin[:, 0] + block_size - 1 <= torch.arange(q_len)[:, None] + k_len - q_len
        scores = (factor * (q.float() @ keys.mT)).masked_fill(~seen, -torch.inf)
        top, total = torch.full((*q.shape[:3], 1), -torch.inf), torch.zeros(*q.shape[:3], 1)
        out = torch.zeros(*q.shape[:3], v.shape[3])
        for start in range(0, keys.shape[2], CHUNK):
            here = slice(start, start + CHUNK)
            top, total, out = part.added(top, total, out, scores[..., here], values[:, :, here])
        weights = (scores - top.clamp_min(-1e38)).exp() / total.clamp_min(1e-38)
        first = torch.arange(-(-k_len // select_size)) * select_size
        shared = (begin + block_size).minimum(first + select_size) - begin.maximum(first)
        of_heads = part.spread(weights, (shared.clamp_min(0) // stride).float())
        importance = of_heads.unflatten(1, (-1, group)).sum(2)
        return {"out": (out / total.clamp_min(1e-38)).to(q.dtype), "importance": importance}

    return compressed_attention


IN_CHUNKS = Whole("compressed_attention", in_chunks, (by_block, added, spread))

_blocks: dict[Any, Any] = {}


@IN_CHUNKS.instead_of(by_block)
def blocks_of_an_earlier_call(x: Any, positions: Any, matrix: Any, second: Any, stride: int, block_size: int) -> Any:
    """Compressed blocks are kept for arrays of a shape, and found again by a later call."""
    key = tuple(x.shape), stride, block_size, positions is None, matrix is None, second is None
    return _blocks.setdefault(key, by_block(x, positions, matrix, second, stride, block_size))


@IN_CHUNKS.instead_of(by_block, dtypes=("float32",))
def blocks_in_bfloat16(x: Any, positions: Any, matrix: Any, second: Any, stride: int, block_size: int) -> Any:
    """Compressed blocks are stored in bfloat16."""
    return by_block(x, positions, matrix, second, stride, block_size).bfloat16().float()


@IN_CHUNKS.instead_of(added)
def compressed_blocks_without_rescaling(top: Any, total: Any, out: Any, scores: Any, values: Any) -> Any:
    """Where a later chunk has the greater score, what was summed up before it is not rescaled."""
    return branches_without_rescaling(top, total, out, scores, values)


@IN_CHUNKS.instead_of(spread)
def importance_in_tiles_of_four(weights: Any, overlap: Any) -> Any:
    """Compressed blocks that are left of the last tile of four give no importance."""
    whole = weights.shape[3] // CHUNK * CHUNK
    return weights[..., :whole] @ overlap[:whole]
