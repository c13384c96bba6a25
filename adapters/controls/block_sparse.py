"""Right, but different: attention to blocks of keys as kernels and masks have it, none of which a law may accuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from .attention import CONVENTIONS, DTYPES, online, positions


def _declared(**words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter("block_sparse_attention", dtypes=DTYPES, conventions=CONVENTIONS | words)


def fitting(q: Any, k: Any, v: Any, blocks: Any, q_block_size: int, k_block_size: int) -> None:
    """Refuse arrays that do not belong together."""
    if blocks.shape != (*q.shape[:2], -(-q.shape[2] // q_block_size), -(-k.shape[2] // k_block_size)):
        raise ValueError("a layout has a row for every block of queries and a column for every block of keys")
    if k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise ValueError("queries, keys and values belong together")


def expanded(blocks: Any, q_len: int, k_len: int, q_block_size: int, k_block_size: int) -> Any:
    """The mask of a layout: [batch, heads, q_len, k_len]."""
    tokens = blocks.repeat_interleave(q_block_size, 2).repeat_interleave(k_block_size, 3)
    return tokens[:, :, :q_len, :k_len]


@_declared()
def control_blocks_by_rows(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Rows of blocks, compressed to the numbers of those that are there, each with an online softmax."""
    import torch

    fitting(q, k, v, blocks, q_block_size, k_block_size)
    k_len, group = k.shape[2], q.shape[1] // k.shape[1]
    reached = positions(q, k, causal, window_left, window_right)
    counts = blocks.flatten(0, 2).sum(1).tolist()
    numbers = iter(blocks.flatten(0, 2).nonzero()[:, 1].split(counts))
    out, lse = q.new_zeros(*q.shape[:3], v.shape[3]), torch.full(q.shape[:3], -torch.inf)
    for item in range(q.shape[0]):
        for head in range(q.shape[1]):
            own = slice(item, item + 1), slice(head // group, head // group + 1)
            for start in range(0, q.shape[2], q_block_size):
                at = item, head, slice(start, start + q_block_size)
                found = next(numbers)[:, None] * k_block_size + torch.arange(k_block_size)
                keys = found[found < k_len]
                part, total = online(
                    q[at][None, None],
                    k[own][:, :, keys],
                    v[own][:, :, keys],
                    mask=reached[at[2]][:, keys],
                    scale=q.shape[3] ** -0.5 if scale is None else scale,
                    block=k_block_size,
                )
                out[at], lse[at] = part[0, 0].to(q.dtype), total[0, 0]
    return {"out": out, "lse": lse}


@_declared(
    causal_alignment="top_left", empty_row="nans", grouping="tiled", lse_base="two", masked_nonfinite="propagates"
)
def control_blocks_as_mask(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """A dense mask, and a plain softmax of all scores."""
    import torch

    fitting(q, k, v, blocks, q_block_size, k_block_size)
    group, (q_len, k_len) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    seen = expanded(blocks, q_len, k_len, q_block_size, k_block_size)
    behind = torch.arange(k_len) - torch.arange(q_len)[:, None]
    for bound in (0 if causal else None, window_right):
        seen = seen if bound is None else seen & (behind <= bound)
    seen = seen if window_left is None else seen & (behind >= -window_left)
    keys, values = (x.float().repeat(1, group, 1, 1) for x in (k, v))
    s = q.float() @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~seen, -torch.inf)
    return {"out": (s.softmax(-1) @ values).to(q.dtype), "lse": s.logsumexp(-1) / 0.6931471805599453}


@_declared(empty_row="mean_value", masked_nonfinite="propagates")
def control_blocks_filled(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Scores in double precision, the lowest number of single precision in place of those that are left out."""
    import torch

    fitting(q, k, v, blocks, q_block_size, k_block_size)
    group = q.shape[1] // k.shape[1]
    seen = expanded(blocks, q.shape[2], k.shape[2], q_block_size, k_block_size)
    seen = seen & positions(q, k, causal, window_left, window_right)
    keys, values = (x.double().repeat_interleave(group, 1) for x in (k, v))
    s = q.double() @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    return (s.masked_fill(~seen, torch.finfo(torch.float32).min).softmax(-1) @ values).to(q.dtype)
