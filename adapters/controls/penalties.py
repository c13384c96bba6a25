"""Right, but different: penalties for tokens that were there before, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import DTYPES


def fitting(logits: Any, prompt: Any, generated: Any) -> None:
    """Refuse rows without tokens."""
    if not len(logits) == len(prompt) == len(generated):
        raise ValueError("every row has a prompt and generated tokens")


@adapter("token_penalties", dtypes=DTYPES)
def control_penalties_by_counts(
    logits: Any, prompt: Any, generated: Any, repetition: Any = None, presence: Any = None, frequency: Any = None
) -> Any:
    """Counts of one entry more for padding, and all rows at once."""
    import torch

    fitting(logits, prompt, generated)
    rows, n = logits.shape
    counts = []
    for tokens in (prompt, generated):
        known = torch.where(tokens < 0, n, tokens).long()
        counts.append(torch.zeros(rows, n + 1).scatter_add_(1, known, torch.ones(known.shape))[:, :n])
    x = logits.float().clone()
    if repetition is not None:
        factor = torch.where((counts[0] + counts[1] > 0), repetition[:, None], 1.0)
        x = torch.where(x > 0, x / factor, x * factor)
    if frequency is not None:
        x = x - frequency[:, None] * counts[1]
    if presence is not None:
        x = x - presence[:, None] * (counts[1] > 0)
    return x.to(logits.dtype)


@adapter("token_penalties", dtypes=DTYPES)
def control_penalties_token_by_token(
    logits: Any, prompt: Any, generated: Any, repetition: Any = None, presence: Any = None, frequency: Any = None
) -> Any:
    """Row by row in double precision, each token that was there by itself, by its factor."""
    fitting(logits, prompt, generated)
    out = logits.double()
    for row, (before, after) in enumerate(zip(prompt.tolist(), generated.tolist(), strict=True)):
        for token in {*before, *after} - {-1}:
            x = out[row, token]
            if repetition is not None:
                x = x * float(repetition[row]) ** (-1 if x > 0 else 1)
            if frequency is not None:
                x = x - float(frequency[row]) * after.count(token)
            if presence is not None and token in after:
                x = x - float(presence[row])
            out[row, token] = x
    return out.to(logits.dtype)
