"""Greedy generation, one item at a time and without a cache.

Radford et al. 2019, Language models are unsupervised multitask learners.
"""

import numpy as np

from .decoder import decoder


def generate(prompts, lengths, *weights, new_tokens, chunks=None, pad=0, end=None, **model):
    """Every prompt, its new tokens and padding: `[batch, length + new_tokens]`.

    prompts [batch, length], lengths [batch]; weights and `model` are those of `decoder`. Chunks change nothing.
    An item that generates `end` has padding behind it.
    """
    batch, length = prompts.shape
    if lengths.shape != (batch,) or not np.all((lengths >= 1) & (lengths <= length)):
        raise ValueError("every prompt has a length, and is no longer than its row")
    if new_tokens < 0 or (chunks is not None and sum(chunks) != length):
        raise ValueError("chunks add up to the length of the rows, and new tokens are not fewer than none")
    tokens = np.full((batch, length + new_tokens), pad)
    for row, prompt, n in zip(tokens, prompts, lengths, strict=True):
        text = list(prompt[:n])
        while len(text) < n + new_tokens:
            logits = decoder(np.array([text]), *weights, **model)[0, -1]  # [vocab]
            text.append(int(np.argmax(logits)))
            if text[-1] == end:
                break
        row[: len(text)] = text
    return tokens
