"""Attention to keys of given numbers in chunks of a list, and what goes wrong with sums, memory and kept lists."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ..controls.attention import LEAST
from ..controls.gathered import WORDS, fitting
from .whole import Whole

CHUNK = 16
State = tuple[Any, Any, Any]
"""The running maximum and sum, and the weighted values [value_dim]."""


def lists(selected: Any) -> Any:
    """The numbers of all queries, one list behind the other: [rows, count]."""
    return selected.reshape(-1, selected.shape[3])


def chunks(numbers: Any) -> Iterator[Any]:
    """The parts of a list that are taken together, the last one shorter."""
    return iter(numbers.split(CHUNK))


def places(numbers: Any, block_size: int) -> Any:
    """The keys of the blocks of these numbers, and -1 for none."""
    import torch

    found = numbers[:, None] * block_size + torch.arange(block_size)
    return torch.where(numbers[:, None] < 0, -1, found).flatten()


def read(x: Any, item: int, head: int, at: Any, held: Any) -> Any:
    """Keys or values of one head, zeros where a place holds none: [places, size]."""
    return x[item, head, at.clamp(0, x.shape[2] - 1)].float().masked_fill(~held[:, None], 0.0)


def opened(value_dim: int) -> State:
    """What a query begins with."""
    import torch

    return torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros(value_dim)


def added(state: State, s: Any, values: Any) -> State:
    """The state with the scores [places] and values of one more chunk."""
    import torch

    top, total, out = state
    new = torch.maximum(top, s.max())
    safe = new.clamp_min(LEAST)
    p, old = torch.exp(s - safe), torch.exp(top - safe)
    return new, total * old + p.sum(), out * old + p @ values


def in_chunks(part: Any) -> Callable[..., Any]:
    def gathered_attention(
        q: Any,
        k: Any,
        v: Any,
        selected: Any,
        *,
        block_size: int = 1,
        scale: float | None = None,
        causal: bool = False,
    ) -> Any:
        import torch

        fitting(q, k, v, selected)
        batch, heads, q_len, head_dim = q.shape
        k_len, group, own = k.shape[2], heads // k.shape[1], selected.shape[1]
        rows = part.lists(selected)
        factor = head_dim**-0.5 if scale is None else scale
        out = q.new_zeros(batch, heads, q_len, v.shape[3])
        for item, head, row in itertools.product(range(batch), range(heads), range(q_len)):
            kv_head, last = head // group, k_len - q_len + row if causal else k_len - 1
            state = part.opened(v.shape[3])
            for numbers in part.chunks(rows[(item * own + (kv_head if own > 1 else 0)) * q_len + row]):
                at = part.places(numbers, block_size)
                held = (at >= 0) & (at < k_len)
                keys, values = (part.read(x, item, kv_head, at, held) for x in (k, v))
                s = (keys @ q[item, head, row].float() * factor).masked_fill(~held | (at > last), -torch.inf)
                state = part.added(state, s, values)
            total = state[1]
            out[item, head, row] = torch.where(total > 0, state[2] / total, 0.0).to(q.dtype)
        return out

    return gathered_attention


IN_CHUNKS = Whole("gathered_attention", in_chunks, (lists, chunks, places, read, opened, added), WORDS)

_lists: dict[tuple[int, ...], Any] = {}


@IN_CHUNKS.instead_of(lists)
def lists_of_the_first_call(selected: Any) -> Any:
    """The lists of the first call of a shape are kept for the later ones, as indexers share them between layers."""
    return _lists.setdefault(tuple(selected.shape), lists(selected).clone())


@IN_CHUNKS.instead_of(lists)
def lists_without_their_strides(selected: Any) -> Any:
    """The lists are read as if they were one behind the other in memory, whatever their strides are."""
    rows = selected[..., 0].numel()
    return selected.as_strided((rows, selected.shape[3]), (selected.shape[3], 1))


@IN_CHUNKS.instead_of(chunks)
def uneven_chunk_read_twice(numbers: Any) -> Iterator[Any]:
    """The last chunk of a list begins a whole chunk before its end, so that some numbers are read twice."""
    uneven = len(numbers) > CHUNK and len(numbers) % CHUNK
    yield from numbers[: len(numbers) - uneven].split(CHUNK)
    if uneven:
        yield numbers[-CHUNK:]


@IN_CHUNKS.instead_of(chunks)
def ends_with_a_chunk_of_padding(numbers: Any) -> Iterator[Any]:
    """A list is taken to end where a whole chunk of it is -1."""
    for chunk in numbers.split(CHUNK):
        if (chunk < 0).all():
            return
        yield chunk


@IN_CHUNKS.instead_of(read, seen="radixark/miles#2079")
def padding_reads_before_the_keys(x: Any, item: int, head: int, at: Any, held: Any) -> Any:
    """The key before the first is read for -1; where it is not finite, a weight of zero does not hide it."""
    rows = x.reshape(-1, x.shape[3])
    return rows[((item * x.shape[1] + head) * x.shape[2] + at.clamp(-1, x.shape[2] - 1)) % len(rows)].float()


@IN_CHUNKS.instead_of(added)
def chunks_without_rescaling(state: State, s: Any, values: Any) -> State:
    """Where a later chunk has the greater score, what was summed up before it is not rescaled."""
    import torch

    top, total, out = state
    new = torch.maximum(top, s.max())
    p = torch.exp(s - new.clamp_min(LEAST))
    return new, total + p.sum(), out + p @ values


@IN_CHUNKS.instead_of(added, seen="vllm-project/vllm#48364")
def chunk_of_padding_gives_nan(state: State, s: Any, values: Any) -> State:
    """A first chunk that names nothing has its maximum taken from itself, minus infinity."""
    import torch

    top, total, out = state
    new = torch.maximum(top, s.max())
    p, old = torch.exp(s - new), torch.exp(top - new)
    return new, total * old + p.sum(), out * old + p @ values
