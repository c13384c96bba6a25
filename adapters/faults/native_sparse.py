"""Native sparse attention in chunks of keys, and what goes wrong with means, chunks and sums of branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.native_sparse import fitting
from .whole import Whole

CHUNK = 4


def means(x: Any, block_size: int) -> Any:
    """The means of the blocks that are whole: [batch, heads, blocks, size], in float32."""
    whole = x.shape[2] // block_size
    return x[:, :, : whole * block_size].float().unflatten(2, (whole, block_size)).mean(3)


def added(top: Any, total: Any, out: Any, scores: Any, values: Any) -> Any:
    """The running maximum, sum and weighted values with one more chunk of keys."""
    import torch

    new = torch.maximum(top, scores.amax(-1, keepdim=True))
    safe = new.clamp_min(-1e38)
    p, old = (scores - safe).exp(), (top - safe).exp()
    return new, total * old + p.sum(-1, keepdim=True), out * old + p @ values


def divided(out: Any, total: Any) -> Any:
    """The averages of a branch, zeros where a query has seen nothing."""
    return out / total.clamp_min(1e-38)


def joined(branches: list[Any], like: Any) -> Any:
    """The branches, with their gates, added up."""
    return sum(branches)


def in_chunks(part: Any) -> Callable[..., Any]:
    def native_sparse_attention(
        q: Any,
        k: Any,
        v: Any,
        selected: Any,
        compressed_gate: Any = None,
        selected_gate: Any = None,
        window_gate: Any = None,
        *,
        block_size: int = 4,
        window_left: int = 2,
        scale: float | None = None,
    ) -> Any:
        import torch

        fitting(q, k, v, selected)
        group, (q_len, k_len), head_dim = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2]), q.shape[3]
        factor = head_dim**-0.5 if scale is None else scale
        row, column = torch.arange(q_len)[:, None] + k_len - q_len, torch.arange(k_len)
        pooled = [part.means(x, block_size) for x in (k, v)]
        complete = (torch.arange(pooled[0].shape[2]) + 1) * block_size - 1 <= row
        named = (selected[..., None] == column // block_size).any(3).repeat_interleave(group, 1)
        near = (column <= row) & (row - column <= window_left)
        branches = [torch.zeros(*q.shape[:3], v.shape[3])]
        ways = (compressed_gate, pooled, complete), (selected_gate, [k, v], named & (column <= row))
        for gate, pair, seen in (*ways, (window_gate, [k, v], near)):
            if gate is None:
                continue
            keys, values = (x.float().repeat_interleave(group, 1) for x in pair)
            state = (
                torch.full((*q.shape[:3], 1), -torch.inf),
                torch.zeros(*q.shape[:3], 1),
                torch.zeros_like(branches[0]),
            )
            for start in range(0, keys.shape[2], CHUNK):
                here = slice(start, start + CHUNK)
                scores = factor * (q.float() @ keys[:, :, here].mT)
                state = part.added(*state, scores.masked_fill(~seen[..., here], -torch.inf), values[:, :, here])
            branches.append(gate.float()[..., None] * part.divided(state[2], state[1]))
        return part.joined(branches, q).to(q.dtype)

    return native_sparse_attention


IN_CHUNKS = Whole("native_sparse_attention", in_chunks, (means, added, divided, joined), {"empty_list": "zeros"})

_means: dict[Any, Any] = {}


@IN_CHUNKS.instead_of(means)
def means_of_an_earlier_call(x: Any, block_size: int) -> Any:
    """The means of blocks are kept for arrays of a shape, and found again by a later call."""
    return _means.setdefault((tuple(x.shape), block_size), means(x, block_size))


@IN_CHUNKS.instead_of(means, dtypes=("float32",))
def means_in_bfloat16(x: Any, block_size: int) -> Any:
    """The means of blocks are stored in bfloat16."""
    return means(x, block_size).bfloat16().float()


@IN_CHUNKS.instead_of(added)
def branches_without_rescaling(top: Any, total: Any, out: Any, scores: Any, values: Any) -> Any:
    """Where a later chunk has the greater score, what was summed up before it is not rescaled."""
    import torch

    new = torch.maximum(top, scores.amax(-1, keepdim=True))
    p = (scores - new.clamp_min(-1e38)).exp()
    return new, total + p.sum(-1, keepdim=True), out + p @ values


@IN_CHUNKS.instead_of(divided)
def nothing_divided_by_nothing(out: Any, total: Any) -> Any:
    """A branch in which a query has seen nothing is NaN, whatever its gate is."""
    return out / total


@IN_CHUNKS.instead_of(joined, dtypes=("float32",))
def branches_joined_in_bfloat16(branches: list[Any], like: Any) -> Any:
    """The branches are added up in bfloat16."""
    return sum(one.bfloat16() for one in branches)
