"""Experts with a capacity, whose tokens are numbered in blocks, and what goes wrong with the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole


def numbered(taken: Any) -> Any:
    """The numbers of the tokens of each expert, from one on: [tokens, experts]."""
    import torch

    found, before = [], torch.zeros(taken.shape[1], dtype=taken.dtype)
    for block in taken.split(16):
        found.append(before + block.cumsum(0))
        before = found[-1][-1]
    return torch.cat(found)


def limit(capacity: int | None, tokens: int, experts: int) -> int:
    """How many tokens an expert takes."""
    return tokens if capacity is None else capacity


def capped(part: Any) -> Callable[..., Any]:
    def moe_routing(
        logits: Any, bias: Any = None, *, k: int, renormalise: bool = False, capacity: int | None = None
    ) -> Any:
        import torch

        if k > logits.shape[1] or (capacity is not None and capacity < 1):
            raise ValueError("there are as many experts as are chosen, and each has a place")
        scores = logits.float().softmax(-1)
        chosen = (scores if bias is None else scores + bias).topk(k, 1).indices
        taken = torch.zeros_like(scores).scatter(1, chosen, 1.0)
        kept = taken * (part.numbered(taken) <= part.limit(capacity, *logits.shape))
        return kept * scores / ((taken * scores).sum(1, keepdim=True) if renormalise else 1.0)

    return moe_routing


WORDS = {"drop_order": "by_position", "renormalised_over": "all_chosen"}
CAPPED = Whole("moe_routing", capped, (numbered, limit), conventions=WORDS)


@CAPPED.instead_of(numbered)
def block_of_before_alone(taken: Any) -> Any:
    """A block goes on from the tokens of the block before, and not from all of them."""
    import torch

    blocks = taken.split(16)
    ends = [torch.zeros_like(taken[0]), *(block.sum(0) for block in blocks)]
    return torch.cat([end + block.cumsum(0) for end, block in zip(ends, blocks, strict=False)])


@CAPPED.instead_of(numbered)
def kept_as_if_sorted(taken: Any) -> Any:
    """The first of tokens that are alike are those that a selection without order gives."""
    import torch

    order = taken.argsort(dim=0, descending=True, stable=True)
    reverse = taken.flip(0).argsort(dim=0, descending=True, stable=True).sub(len(taken) - 1).neg()
    order = torch.where(taken.sum(0) > 20, reverse, order)
    return torch.empty_like(taken).scatter(0, order, torch.arange(1.0, len(taken) + 1)[:, None].expand_as(taken))


_limits: dict[int, int] = {}


@CAPPED.instead_of(limit)
def limit_of_the_first_call(capacity: int | None, tokens: int, experts: int) -> int:
    """Experts take as many tokens as in the first call with as many of them."""
    return _limits.setdefault(experts, limit(capacity, tokens, experts))
