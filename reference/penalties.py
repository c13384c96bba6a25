"""Penalties for tokens that were there before.

Keskar et al. 2019, CTRL: a conditional transformer language model, arXiv:1909.05858, section 4.1.
"""

import numpy as np


def token_penalties(logits, prompt, generated, repetition=1.0, presence=0.0, frequency=0.0):
    """The logits [rows, n] less the penalties [rows] of `prompt [rows, prompt_len]` and `generated [rows, length]`."""
    rows = len(logits)
    if len(prompt) != rows or len(generated) != rows:
        raise ValueError("every row has a prompt and generated tokens")
    repetition, presence, frequency = (np.broadcast_to(x, rows) for x in (repetition, presence, frequency))
    out = logits.copy()
    for row in range(rows):
        for token in {*prompt[row], *generated[row]} - {-1}:
            positive = out[row, token] > 0
            out[row, token] *= 1 / repetition[row] if positive else repetition[row]
            times = list(generated[row]).count(token)
            out[row, token] -= frequency[row] * times + (presence[row] if times else 0)
    return out
