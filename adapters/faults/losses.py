"""Cross-entropy in blocks of words, and what goes wrong with the running sums and with the logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole


def blocks(x: Any) -> Any:
    """The words in blocks of 32."""
    return x.split(32, 1)


def carried(whole: Any, old: Any, new: Any) -> Any:
    """The running sum, relative to the new maximum."""
    return whole * (old - new).exp()


def gradient_place(logits: Any) -> None:
    """A kernel that writes gradients in the place of the logits does so in a copy."""


def summed(losses: Any) -> Any:
    return losses.sum()


def noted(lse: Any) -> Any:
    """The logsumexps as they are kept for the backward pass."""
    return lse


def lost(part: Any) -> Callable[..., Any]:
    def cross_entropy(logits: Any, targets: Any, *, ignore_index: int = -100, reduction: str = "mean") -> Any:
        import torch

        if len(targets) != len(logits):
            raise ValueError("every token has a target")
        x = logits.float()
        top, whole = torch.full((len(x),), -torch.inf), torch.zeros(len(x))
        for block in part.blocks(x):
            new = torch.maximum(top, block.amax(1))
            whole = part.carried(whole, top, new) + (block - new[:, None]).exp().sum(1)
            top = new
        valid = targets != ignore_index
        picked = x.gather(1, targets.where(valid, 0)[:, None])[:, 0]
        lse = top + whole.log()
        losses = (lse - picked).where(valid, 0.0)
        part.gradient_place(logits)
        loss = losses if reduction == "none" else part.summed(losses) / (valid.sum() if reduction == "mean" else 1)
        return {"loss": loss, "lse": part.noted(lse)}

    return cross_entropy


LOSS = Whole("cross_entropy", lost, (blocks, carried, gradient_place, summed, noted), {"no_tokens_left": "nans"})


@LOSS.instead_of(blocks)
def last_block_of_words_lost(x: Any) -> Any:
    """Words beyond the last whole block of 32 are not summed."""
    return [block for block in x.split(32, 1) if block.shape[1] == 32 or x.shape[1] < 32]


@LOSS.instead_of(carried)
def running_sum_not_rescaled(whole: Any, old: Any, new: Any) -> Any:
    """Where the maximum rises, the sum so far is kept as it is."""
    return whole


@LOSS.instead_of(gradient_place)
def gradients_over_logits(logits: Any) -> None:
    """The gradients are written in the place of the logits, which the caller still has."""
    logits.copy_(logits.float().softmax(1))


@LOSS.instead_of(summed, dtypes=("float32",))
def losses_summed_in_half_precision(losses: Any) -> Any:
    """The losses of the tokens are added up in bfloat16."""
    return losses.bfloat16().sum().float()


@LOSS.instead_of(noted, dtypes=("float32",))
def logsumexp_kept_in_sixteen_bits(lse: Any) -> Any:
    """The logsumexps are kept in bfloat16, and returned in float32."""
    return lse.bfloat16().float()


@LOSS.instead_of(noted)
def logsumexps_of_the_first_thirty_two(lse: Any) -> Any:
    """Of the logsumexps those of the first 32 tokens are kept."""
    import torch

    return torch.where(torch.arange(len(lse)) < 32, lse, 0.0)
