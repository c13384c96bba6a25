"""Experts that are chosen by sorting keys, as kernels do it, and what goes wrong with the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole


def keys(choices: Any) -> Any:
    """The numbers by which experts are sorted."""
    return choices


def blocks(choices: Any, k: int) -> list[Any]:
    """The experts in the blocks of which each gives its own k best, as numbers of experts."""
    import torch

    return list(torch.arange(choices.shape[1]).split(32))


def weighed(scores: Any, chosen: Any) -> Any:
    """The scores of the experts that were chosen."""
    return scores.gather(1, chosen)


def routed(part: Any) -> Callable[..., Any]:
    def moe_routing(
        logits: Any, bias: Any = None, *, k: int, scoring: str = "softmax", renormalise: bool = False
    ) -> Any:
        import torch

        if k > logits.shape[1]:
            raise ValueError("more experts are asked for than there are")
        scores = logits.float().softmax(-1) if scoring == "softmax" else logits.float().sigmoid()
        order = part.keys(logits.float() if bias is None else scores + bias)
        kept = []
        for block in part.blocks(order, k):
            best = order[:, block].topk(min(k, len(block)), 1).indices
            kept.append(block[best])
        numbers = torch.cat(kept, 1)
        chosen = numbers.gather(1, order.gather(1, numbers).topk(k, 1).indices)
        weights = part.weighed(scores, chosen)
        weights = weights / weights.sum(1, keepdim=True) if renormalise else weights
        return torch.zeros_like(scores).scatter(1, chosen, weights)

    return moe_routing


ROUTED = Whole("moe_routing", routed, (keys, blocks, weighed))


@ROUTED.instead_of(keys, seen="flashinfer-ai/flashinfer#2822")
def bits_as_keys(choices: Any) -> Any:
    """Numbers are sorted by their bits, in which those below zero come in reverse order."""
    import torch

    return choices.contiguous().view(torch.int32).to(torch.int64) % 2**32


@ROUTED.instead_of(keys, dtypes=("float32",))
def keys_in_bfloat16(choices: Any) -> Any:
    """Numbers are sorted in bfloat16, in which neighbours are alike."""
    return choices.bfloat16().float()


@ROUTED.instead_of(blocks)
def blocks_of_whole_size(choices: Any, k: int) -> list[Any]:
    """Experts beyond the last whole block of 32 are not looked at."""
    import torch

    return [block for block in torch.arange(choices.shape[1]).split(32) if len(block) == 32 or choices.shape[1] < 32]


@ROUTED.instead_of(weighed)
def weights_sorted_apart(scores: Any, chosen: Any) -> Any:
    """The weights come sorted by size, and the experts by their number."""
    import torch

    found = scores.gather(1, chosen).sort(1, descending=True).values
    return torch.empty_like(found).scatter(1, chosen.argsort(1), found)
