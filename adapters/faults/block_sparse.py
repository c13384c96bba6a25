"""Attention over compressed rows of blocks, and what goes wrong with running sums, memory, tiles and plans."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..controls.attention import CONVENTIONS, LEAST, positions
from ..controls.block_sparse import fitting
from .whole import Whole

State = tuple[Any, Any, Any]
"""The running maximum and sum [rows, 1], and the weighted values [rows, value_dim]."""


def pattern(blocks: Any) -> Any:
    """The rows of blocks of all heads: [rows, k_blocks]."""
    return blocks.reshape(-1, blocks.shape[3])


def ends(rows: Any) -> list[int]:
    """Where the numbers of each row begin, and at last where those of the last one end."""
    import torch

    return torch.nn.functional.pad(rows.sum(1).cumsum(0), (1, 0)).tolist()


def extent(number: int, size: int, k_len: int) -> tuple[int, int]:
    """The first key of a block, and the one behind its last."""
    return number * size, min((number + 1) * size, k_len)


def read(x: Any, item: int, head: int, first: int, last: int) -> Any:
    """Keys or values of a block as they lie in memory, and the last row of all for what is behind it: [keys, size]."""
    import torch

    rows = x.reshape(-1, x.shape[3])
    start = (item * x.shape[1] + head) * x.shape[2]
    return rows[(start + torch.arange(first, last)).clamp_max(len(rows) - 1)].float()


def opened(rows: int, value_dim: int) -> State:
    """What a block of queries begins with."""
    import torch

    return torch.full((rows, 1), -torch.inf), torch.zeros(rows, 1), torch.zeros(rows, value_dim)


def add(state: State, s: Any, values: Any) -> None:
    """Take the scores [rows, keys] and the values of one more block into the state."""
    import torch

    top, total, out = state
    new = torch.maximum(top, s.amax(-1, keepdim=True))
    safe = new.clamp_min(LEAST)
    p, old = torch.exp(s - safe), torch.exp(top - safe)
    top.copy_(new)
    total.mul_(old).add_(p.sum(-1, keepdim=True))
    out.mul_(old).add_(p @ values)


def by_rows(part: Any) -> Callable[..., Any]:
    def block_sparse_attention(
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
        import torch

        fitting(q, k, v, blocks, q_block_size, k_block_size)
        batch, heads, q_len, head_dim = q.shape
        k_len, group = k.shape[2], heads // k.shape[1]
        rows = part.pattern(blocks)
        at, numbers = part.ends(rows), rows.nonzero()[:, 1].tolist()
        hidden = ~positions(q, k, causal, window_left, window_right)
        hidden = torch.nn.functional.pad(hidden, (0, k_block_size))  # nothing is said of what is behind the end
        out = q.new_zeros(batch, heads, q_len, v.shape[3])
        places = itertools.product(range(batch), range(heads), range(0, q_len, q_block_size))
        for row, (item, head, start) in enumerate(places):
            own = slice(start, min(start + q_block_size, q_len))
            queries = q[item, head, own].float() * (head_dim**-0.5 if scale is None else scale)
            state = part.opened(len(queries), v.shape[3])
            for number in numbers[at[row] : at[row + 1]]:
                first, last = part.extent(number, k_block_size, k_len)
                keys, values = (part.read(x, item, head // group, first, last) for x in (k, v))
                s = (queries @ keys.mT).masked_fill(hidden[own, first:last], -torch.inf)
                part.add(state, s, values)
            total = state[1]
            out[item, head, own] = torch.where(total > 0, state[2] / total, 0.0).to(q.dtype)
        return out

    return block_sparse_attention


BY_ROWS = Whole("block_sparse_attention", by_rows, (pattern, ends, extent, read, opened, add), CONVENTIONS)

_plans: dict[tuple[int, ...], Any] = {}
_rooms: dict[tuple[int, int], State] = {}


@BY_ROWS.instead_of(pattern)
def layout_of_the_first_call(blocks: Any) -> Any:
    """The layout is planned for the first call of its shape, and kept for the later ones."""
    return _plans.setdefault(tuple(blocks.shape), pattern(blocks).clone())


@BY_ROWS.instead_of(pattern)
def layout_without_its_strides(blocks: Any) -> Any:
    """The layout is read as if its rows were one behind the other in memory, whatever its strides are."""
    return blocks.as_strided((blocks[..., 0].numel(), blocks.shape[3]), (blocks.shape[3], 1))


@BY_ROWS.instead_of(ends)
def numbers_of_blocks_summed_in_eight_bits(rows: Any) -> list[int]:
    """The running sums are kept in eight bits, and begin again at 256."""
    return [end % 256 for end in ends(rows)]


@BY_ROWS.instead_of(ends)
def rows_as_wide_as_the_first(rows: Any) -> list[int]:
    """All rows are taken to have as many blocks as the first."""
    return [row * int(rows[0].sum()) for row in range(len(rows) + 1)]


@BY_ROWS.instead_of(extent)
def tail_read_into_the_next_head(number: int, size: int, k_len: int) -> tuple[int, int]:
    """The last block of keys is read whole, and so are the first keys of the next head."""
    return number * size, (number + 1) * size


@BY_ROWS.instead_of(opened)
def row_begins_as_the_last_one_ended(rows: int, value_dim: int) -> State:
    """What a block of queries has summed up is kept for the next one of its size."""
    return _rooms.setdefault((rows, value_dim), opened(rows, value_dim))


@BY_ROWS.instead_of(add)
def blocks_without_rescaling(state: State, s: Any, values: Any) -> None:
    """Where a later block has the greater score, what was summed up before it is not rescaled."""
    import torch

    top, total, out = state
    new = torch.maximum(top, s.amax(-1, keepdim=True))
    p = torch.exp(s - new.clamp_min(LEAST))
    top.copy_(new)
    total.add_(p.sum(-1, keepdim=True))
    out.add_(p @ values)


@BY_ROWS.instead_of(add)
def hidden_block_gives_nan(state: State, s: Any, values: Any) -> None:
    """A block whose keys are all hidden from a query has its maximum taken from itself, minus infinity."""
    import torch

    top, total, out = state
    new = torch.maximum(top, s.amax(-1, keepdim=True))
    p, old = torch.exp(s - new), torch.exp(top - new)
    top.copy_(new)
    total.mul_(old).add_(p.sum(-1, keepdim=True))
    out.mul_(old).add_(p @ values)
