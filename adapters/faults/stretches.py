"""Attention over stretches of the keys, whose results are merged, and what goes wrong where they are cut and merged."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..controls.attention import positions
from .tiles import CONVENTIONS, NUMBERS, finite, key_tiles, visible_keys, widened
from .whole import Whole

Cut = Callable[[int], list[int]]
"""From the number of keys to where stretches of them begin, but for the first."""


def in_steps(n: int) -> Cut:
    return lambda k_len: [tile.start for tile in key_tiles(k_len, n)[1:]]


SIZES: dict[str, Cut] = {
    "halves": lambda k_len: [k_len // 2],
    "halves, the first the larger": lambda k_len: [(k_len + 1) // 2],
    **{f"stretches of {n}": in_steps(n) for n in NUMBERS},
}
"""How keys are cut; the first is what a fault is declared with."""


def stretches(k_len: int, cut: Cut) -> list[slice]:
    edges = [0, *cut(k_len), k_len]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def partial(q: Any, keys: Any, values: Any, seen: Any) -> tuple[Any, Any]:
    """The result over one stretch, and its logsumexp: [..., 1]."""
    import torch

    s = (q @ keys.transpose(-1, -2)).masked_fill(~seen, -torch.inf)
    lse = s.logsumexp(-1, keepdim=True)
    return (s - finite(lse)).exp() @ values, lse


def shares(lses: Any) -> Any:
    """The share of every stretch: [stretches, ..., 1]."""
    import torch

    return (lses - finite(torch.logsumexp(lses, 0))).exp()


def merged(outs: Any, shares: Any) -> Any:
    return (outs * shares).sum(0)


def split(part: Any, cut: Cut) -> Callable[..., Any]:
    def attention(
        q: Any,
        k: Any,
        v: Any,
        *,
        mask: Any = None,
        causal: bool = False,
        window_left: int | None = None,
        window_right: int | None = None,
        scale: float | None = None,
    ) -> Any:
        import torch

        queries, keys, values = widened(q, k, v, scale)
        seen = visible_keys(q, k, mask, positions(q, k, causal, window_left, window_right))
        parts = [
            part.partial(queries, keys[:, :, own], values[:, :, own], seen[..., own])
            for own in part.stretches(k.shape[2], cut)
        ]
        outs, lses = (torch.stack([*each]) for each in zip(*parts, strict=True))
        return part.merged(outs, part.shares(lses)).to(q.dtype), torch.logsumexp(lses, 0)[..., 0]

    return attention


SPLIT = Whole("attention", split, (stretches, partial, shares, merged), CONVENTIONS, sizes=SIZES)


@SPLIT.instead_of(stretches)
def stretches_overlap(k_len: int, cut: Cut) -> list[slice]:
    """The key in the middle belongs to both stretches."""
    return [slice(own.start, min(own.stop + 1, k_len)) for own in stretches(k_len, cut)]


@SPLIT.instead_of(stretches)
def stretches_of_even_length(k_len: int, cut: Cut) -> list[slice]:
    """Both stretches have half the length rounded down, and an odd key is lost."""
    first, *rest = stretches(k_len, cut)
    length = first.stop or k_len
    return [first, *(slice(own.start, min(own.start + length, own.stop)) for own in rest)]


@SPLIT.instead_of(shares)
def stretches_weigh_alike(lses: Any) -> Any:
    """Both stretches weigh alike."""
    return lses.new_full(lses.shape, 1 / len(lses))


@SPLIT.instead_of(shares, seen="lightseekorg/tokenspeed#571")
def shares_to_base_two(lses: Any) -> Any:
    """Natural logarithms are merged by powers of two."""
    import torch

    two = 0.6931471805599453
    return (two * lses - finite(torch.logsumexp(two * lses, 0))).exp()


@SPLIT.instead_of(shares)
def shares_without_a_maximum(lses: Any) -> Any:
    """The stretches are merged by exponentials of their logsumexps as they are."""
    terms = lses.exp()
    return terms / terms.sum(0)


@SPLIT.instead_of(shares)
def shares_of_nothing(lses: Any) -> Any:
    """Where neither stretch has a key to see, infinity is subtracted from infinity."""
    import torch

    return (lses - torch.logsumexp(lses, 0)).exp()


@SPLIT.instead_of(shares)
def shares_in_half_precision(lses: Any) -> Any:
    """The logsumexps of the stretches are stored in float16."""
    import torch

    return (lses.half().float() - finite(torch.logsumexp(lses.half().float(), 0))).exp()


@SPLIT.instead_of(shares)
def one_stretch_of_later_items(lses: Any) -> Any:
    """The stretches are merged for the first item of the batch alone, and the first one is all that others have."""
    import torch

    own = torch.arange(len(lses))[:, None, None, None, None] == 0
    first = torch.arange(lses.shape[1])[:, None, None, None] == 0
    return shares(lses.masked_fill(~(own | first), -torch.inf))


@SPLIT.instead_of(merged)
def heavier_stretch_alone(outs: Any, shares: Any) -> Any:
    """The result is that of the stretch that weighs more."""
    return outs.gather(0, shares.argmax(0, keepdim=True).expand_as(outs[:1]))[0]


@SPLIT.instead_of(merged)
def second_stretch_of_first_item(outs: Any, shares: Any) -> Any:
    """The second stretch is added for the first item of the batch alone, others keep their first."""
    import torch

    return torch.cat([(outs * shares).sum(0)[:1], (outs * shares)[0, 1:]])
