"""Right, but different: the choice of blocks by a stable sort from the last one on, and by the last place."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def open_blocks(importance: Any, block_size: int, first_blocks: int, local_blocks: int, offset: int) -> tuple[Any, Any]:
    """Which blocks a query sees, and which of them are always chosen: both as the importance."""
    import torch

    q_len, blocks = importance.shape[2:]
    if blocks * block_size < offset + q_len:
        raise ValueError("a query is behind the last block")
    number, own = torch.arange(blocks), ((torch.arange(q_len) + offset) // block_size)[:, None]
    seen = (number <= own).expand(importance.shape)
    return seen, seen & ((number < first_blocks) | (number > own - local_blocks))


def ranked(importance: Any, block_size: int, first_blocks: int, local_blocks: int, offset: int) -> tuple[Any, Any]:
    """Importance with infinities for blocks that are always or never chosen, and which blocks a query sees."""
    seen, always = open_blocks(importance, block_size, first_blocks, local_blocks, offset)
    return importance.float().masked_fill(~seen, float("-inf")).masked_fill(always, float("inf")), seen


@adapter("block_selection", dtypes=DTYPES)
def control_blocks_sorted(
    importance: Any,
    *,
    count: int,
    block_size: int = 2,
    first_blocks: int = 1,
    local_blocks: int = 2,
    offset: int = 0,
) -> Any:
    """By a stable sort from the last block on."""
    scores, seen = ranked(importance, block_size, first_blocks, local_blocks, offset)
    ranks = scores.flip(3).argsort(dim=3, descending=True, stable=True).argsort(3).flip(3)
    return (ranks < count) & seen


@adapter("block_selection", dtypes=DTYPES)
def control_blocks_by_threshold(
    importance: Any,
    *,
    count: int,
    block_size: int = 2,
    first_blocks: int = 1,
    local_blocks: int = 2,
    offset: int = 0,
) -> Any:
    """What is always chosen first, and then by the importance of the last place that is left."""
    import torch

    seen, always = open_blocks(importance, block_size, first_blocks, local_blocks, offset)
    scores = importance.double().masked_fill(~seen | always, float("-inf"))
    left = (count - always.sum(3, keepdim=True)).clamp(0, scores.shape[3])
    falling = torch.cat([torch.full_like(scores[..., :1], float("inf")), scores.sort(3, descending=True).values], 3)
    least = falling.gather(3, left)
    above, equal = scores > least, scores == least
    fits = above | equal & (equal.cumsum(3) <= left - above.sum(3, keepdim=True))
    return always | fits & seen & ~always
