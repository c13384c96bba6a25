"""Penalties for tokens that were there before as samplers keep them, and what goes wrong with counts and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.penalties import fitting
from .whole import Whole


def counted(tokens: Any, n: int) -> Any:
    """How often each token occurs: [rows, n]."""
    import torch

    known = torch.where(tokens < 0, n, tokens).long()
    return torch.zeros(len(tokens), n + 1).scatter_add_(1, known, torch.ones(known.shape))[:, :n]


def kept(counts: Any) -> Any:
    """Counts as they are kept from step to step."""
    return counts


def scaled(x: Any, factor: Any) -> Any:
    """Logits by their repetition penalty."""
    import torch

    return torch.where(x > 0, x / factor, x * factor)


def penalising(part: Any) -> Callable[..., Any]:
    def token_penalties(
        logits: Any, prompt: Any, generated: Any, repetition: Any = None, presence: Any = None, frequency: Any = None
    ) -> Any:
        import torch

        fitting(logits, prompt, generated)
        n, x = logits.shape[1], logits.float().clone()
        before, after = part.counted(prompt, n), part.kept(part.counted(generated, n))
        if repetition is not None:
            x = part.scaled(x, torch.where(before + after > 0, repetition[:, None], 1.0))
        if frequency is not None:
            x = x - frequency[:, None] * after
        if presence is not None:
            x = x - presence[:, None] * (after > 0)
        return x.to(logits.dtype)

    return token_penalties


PENALTIES = Whole("token_penalties", penalising, (counted, kept, scaled))
_counts: dict[tuple[int, ...], Any] = {}


@PENALTIES.instead_of(kept)
def counts_of_an_earlier_request(counts: Any) -> Any:
    """Counts go on from those of the last call of that shape, as where a slot of the batch is not cleared."""
    return _counts.setdefault(tuple(counts.shape), counts * 0).add_(counts)


@PENALTIES.instead_of(counted)
def tokens_in_15_bits(tokens: Any, n: int) -> Any:
    """Tokens are kept in 15 bits."""
    import torch

    return counted(torch.where(tokens < 0, tokens, tokens % 32768), n)


@PENALTIES.instead_of(kept)
def counts_in_three_bits(counts: Any) -> Any:
    """Counts are kept in three bits."""
    return counts % 8


@PENALTIES.instead_of(scaled)
def hidden_logits_are_nan(x: Any, factor: Any) -> Any:
    """Logits are multiplied by a mask of signs, which makes NaN of hidden ones."""
    positive = (x > 0).float()
    return positive * x / factor + (1 - positive) * x * factor + 0 * x
