"""Normalisation with scale and shift of its item in blocks, as kernels compute it, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.modulated_norms import fitting
from .whole import Whole, in_memory

BLOCK = 16


def read(x: Any) -> Any:
    """An array, row by row, as it is read from memory: [rows, n]."""
    return x.flatten(0, -2)


def frame(row: Any, length: int, frames: int) -> Any:
    """The frame, among those of all items, of a row among the tokens of all items."""
    return row // (length // frames)


def blocks(size: int) -> Iterator[slice]:
    """The channels of a row, a block at a time."""
    for start in range(0, size, BLOCK):
        yield slice(start, min(start + BLOCK, size))


def begun(like: Any) -> Any:
    """The sums of rows, before anything is added."""
    return like.new_zeros(like.shape)


def streamed(residual: Any, added: Any) -> Any:
    """The stream with what is added to it."""
    return residual + added


def blocked(part: Any) -> Callable[..., Any]:
    def modulated_norm(
        x: Any,
        scales: Any,
        shifts: Any,
        weight: Any = None,
        bias: Any = None,
        residual: Any = None,
        gate: Any = None,
        *,
        rms: bool = False,
        eps: float = 1e-6,
    ) -> Any:
        import torch

        fitting(x, scales, shifts)
        length, n = x.shape[1:]
        rows = torch.arange(x.shape[0] * length)
        own = part.frame(rows, length, scales.shape[1])
        factor, summand = (one.flatten(0, 1)[own].float() for one in (scales, shifts))
        wide = part.read(x).float()
        if residual is not None:
            gates = 1.0 if gate is None else gate.flatten(0, 1)[own].float()
            wide = part.streamed(part.read(residual).float(), wide * gates)
        sums = part.begun(torch.zeros(len(rows)))
        for block in part.blocks(n):
            sums += wide[:, block].sum(-1)
        centred = wide if rms else wide - (sums / n)[:, None]
        squares = torch.zeros(len(rows))
        for block in part.blocks(n):
            squares += centred[:, block].square().sum(-1)
        y = centred * (squares / n + eps).rsqrt()[:, None]
        y = y if weight is None else y * weight.float()
        y = y if bias is None else y + bias.float()
        out, summed = (y * (1 + factor) + summand).reshape(x.shape), wide.reshape(x.shape)
        return {"out": out.to(x.dtype), "summed": summed.to(x.dtype, copy=True)}

    return modulated_norm


BLOCKED = Whole("modulated_norm", blocked, (read, frame, blocks, begun, streamed))
_sums: dict[tuple[int, ...], Any] = {}


@BLOCKED.instead_of(read)
def rows_that_follow_each_other(x: Any) -> Any:
    """Rows are read as if they followed each other without gaps."""
    return in_memory(x, x.shape).reshape(-1, x.shape[-1])


@BLOCKED.instead_of(frame)
def frames_that_are_rounded_up(row: Any, length: int, frames: int) -> Any:
    """Items of one frame have those of their neighbours from half of their tokens on."""
    return ((row + (length // frames) // 2) // (length // frames)).clamp(max=int(row.max()) // (length // frames))


@BLOCKED.instead_of(blocks)
def blocks_that_are_whole(size: int) -> Iterator[slice]:
    """Channels that fill no block do not count in the statistics."""
    yield from (block for block in blocks(size) if block.stop - block.start == BLOCK or size < BLOCK)


@BLOCKED.instead_of(begun)
def sums_of_the_rows_before(like: Any) -> Any:
    """The sums of rows begin with those of a call of as many rows."""
    return _sums.setdefault(tuple(like.shape), begun(like))


@BLOCKED.instead_of(streamed, dtypes=("float32",))
def stream_kept_in_half(residual: Any, added: Any) -> Any:
    """The stream is kept in half precision."""
    return (residual + added).half().float()
