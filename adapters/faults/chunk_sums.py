"""Sums within chunks, and what goes wrong in their arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole

ALONE: Any = {"dtypes": ("float32",)}


def onwards(part: Any) -> Any:
    """The running sums of a chunk."""
    return part.cumsum(2)


def back(part: Any) -> Any:
    """The sums of a chunk from each token to its last."""
    return part.flip(2).cumsum(2).flip(2)


def in_chunks(part: Any) -> Callable[..., Any]:
    def chunk_cumsum(x: Any, *, chunk_size: int, reverse: bool = False, scale: float = 1.0) -> Any:
        import torch

        summed = part.back if reverse else part.onwards
        return scale * torch.cat([summed(chunk.float()) for chunk in x.split(chunk_size, 2)], 2)

    return chunk_cumsum


CHUNKS = Whole("chunk_cumsum", in_chunks, (onwards, back))


@CHUNKS.instead_of(back, seen="fla-org/flash-linear-attention#1095", **ALONE)
def chunk_sums_by_difference(part: Any) -> Any:
    """Sums up to a token are taken off the whole sum, in which what is small is lost."""
    return part.sum(2, keepdim=True) - part.cumsum(2) + part


@CHUNKS.instead_of(onwards)
def chunk_sums_in_bfloat16(part: Any) -> Any:
    """The running sum is kept in bfloat16 from token to token."""
    import torch

    total, rows = torch.zeros_like(part[..., 0]), []
    for t in range(part.shape[2]):
        total = (total + part[..., t]).bfloat16().float()
        rows.append(total)
    return torch.stack(rows, 2)


def added_up(x: Any) -> Any:
    """The sums of rows [rows, n] from each place on, [rows, n, n]."""
    import torch

    n = x.shape[1]
    behind = torch.ones(n, n, dtype=torch.bool).tril(-1)
    return x[..., None].expand(-1, -1, n).masked_fill(~behind, 0.0).cumsum(1)


def squared(part: Any) -> Callable[..., Any]:
    def segment_sums(x: Any) -> Any:
        import torch

        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return part.added_up(x.float()).masked_fill(hidden, -torch.inf).to(x.dtype)

    return segment_sums


SEGMENTS = Whole("segment_sums", squared, (added_up,))


@SEGMENTS.instead_of(added_up, **ALONE)
def segment_sums_by_difference(x: Any) -> Any:
    """Running sums are taken off one another, in which what is small is lost, and which may be infinite."""
    whole = x.cumsum(1)
    return whole[..., None] - whole[:, None]


@SEGMENTS.instead_of(added_up)
def segment_sums_in_bfloat16(x: Any) -> Any:
    """Sums are kept in bfloat16 from place to place."""
    import torch

    place = torch.arange(x.shape[1])
    total, rows = torch.zeros_like(x), []
    for i in range(x.shape[1]):
        total = torch.where(place < i, total + x[:, i, None], 0).bfloat16().float()
        rows.append(total)
    return torch.stack(rows, 1)
