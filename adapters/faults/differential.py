"""Differential attention in blocks of keys, as kernels compute it, and what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..controls.differential import fitting, neighbours, start_of
from .whole import Whole, in_memory

BLOCK = 16
ALONE: Any = {"dtypes": ("float32",)}


def read(x: Any) -> Any:
    """An array as it is read from memory, in single precision."""
    return x.float()


def blocks(last: int) -> Iterator[tuple[int, int]]:
    """The blocks of keys that queries read."""
    for start in range(0, last, BLOCK):
        yield start, min(start + BLOCK, last)


def rescaled(total: Any, old: Any, new: Any) -> Any:
    """Running sums of both maps, as their maxima grow: [..., 2, q_len, n]."""
    return total * (old - new).exp()


def mixed(pair: Any, factor: Any) -> Any:
    """The difference of both maps."""
    return pair[:, :, 0] - factor * pair[:, :, 1]


def squares(left: Any) -> Any:
    """The mean square of a head, block by block of its channels."""
    total = left.new_zeros(left.shape[:-1])
    for start, stop in blocks(left.shape[-1]):
        total = total + left[..., start:stop].square().sum(-1)
    return total / left.shape[-1]


def kept(factor: Any) -> Any:
    """Lambda, as a layer keeps it."""
    return factor


def blocked(part: Any) -> Callable[..., Any]:
    def differential_attention(
        q: Any,
        k: Any,
        v: Any,
        lambda_q1: Any,
        lambda_k1: Any,
        lambda_q2: Any,
        lambda_k2: Any,
        weight: Any = None,
        *,
        depth: int = 0,
        causal: bool = False,
        eps: float = 1e-5,
    ) -> Any:
        import torch

        readers = fitting(q, k, v)
        start, length, keys, queries = start_of(depth), q.shape[2], k.shape[2], neighbours(q).float()
        first, second = ((x.float() @ y.float()).exp() for x, y in ((lambda_q1, lambda_k1), (lambda_q2, lambda_k2)))
        wide, values = (
            neighbours(part.read(k)).repeat_interleave(readers, 1),
            part.read(v).repeat_interleave(readers, 1),
        )
        top = torch.full((*queries.shape[:4], 1), -math.inf)
        total, mass = torch.zeros(*queries.shape[:4], v.shape[3]), torch.zeros(*queries.shape[:4], 1)
        row = torch.arange(length)[:, None] + keys - length
        for at, to in part.blocks(keys):
            scores = queries @ wide[..., at:to, :].mT * q.shape[-1] ** -0.5
            seen = torch.arange(at, to) <= row if causal else torch.ones(length, to - at, dtype=torch.bool)
            scores = scores.masked_fill(~seen, -math.inf)
            peak = torch.maximum(top, scores.amax(-1, keepdim=True))
            steady = peak.masked_fill(peak == -math.inf, 0)
            share = (scores - steady).exp()
            terms = share @ values[:, :, None, at:to]
            total, mass = part.rescaled(total, top, steady) + terms, mass * (top - steady).exp() + share.sum(-1, True)
            top = peak
        left = part.mixed(total / mass, part.kept(first - second + start))
        y = left * (part.squares(left)[..., None] + eps).rsqrt() * (1 - start)
        return (y if weight is None else y * weight.float()).to(q.dtype)

    return differential_attention


PARTS = (read, blocks, rescaled, mixed, squares, kept)
BLOCKED = Whole("differential_attention", blocked, PARTS, {"head_pairs": "neighbours"})


@BLOCKED.instead_of(read, **ALONE)
def keys_that_follow_each_other(x: Any) -> Any:
    """Keys and values are read one after the other, whatever their strides are."""
    return in_memory(x, x.shape).float()


@BLOCKED.instead_of(blocks, **ALONE)
def last_keys_of_a_pair_lost(last: int) -> Iterator[tuple[int, int]]:
    """A last block that is not whole is left out where there are whole ones."""
    yield from (block for block in blocks(last) if block[1] - block[0] == BLOCK or last < BLOCK)


@BLOCKED.instead_of(rescaled, **ALONE)
def maximum_of_the_first_map(total: Any, old: Any, new: Any) -> Any:
    """The running sums of both maps are scaled by the maximum of the first one."""
    return total * (old[:, :, :1] - new[:, :, :1]).exp()


@BLOCKED.instead_of(mixed)
def difference_in_eight_bits(pair: Any, factor: Any) -> Any:
    """The outputs of both maps are kept in eight bits before their difference is taken."""
    import torch

    return mixed(pair.to(torch.float8_e4m3fn).float(), factor)


@BLOCKED.instead_of(mixed, **ALONE)
def difference_in_half(pair: Any, factor: Any) -> Any:
    """The outputs of both maps are kept in half precision before their difference is taken."""
    return mixed(pair.half().float(), factor)


@BLOCKED.instead_of(squares, **ALONE)
def squares_of_whole_blocks(left: Any) -> Any:
    """Channels that fill no block do not count in the mean square."""
    n = left.shape[-1]
    return left[..., : n // BLOCK * BLOCK or n].square().sum(-1) / n


LAYERS: dict[tuple[int, ...], Any] = {}


@BLOCKED.instead_of(kept, **ALONE)
def lambda_of_an_earlier_call(factor: Any) -> Any:
    """Lambda is computed once, and that of the first call is used again."""
    return LAYERS.setdefault(tuple(factor.shape), factor.clone())
