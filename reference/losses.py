"""The loss of a language model.

Label smoothing: Szegedy et al. 2016, arXiv:1512.00567, section 7. The squared logsumexp: Chowdhery et al. 2022, PaLM,
arXiv:2204.02311, section 5. The cap: Gemma Team 2024, arXiv:2408.00118, section 2.
"""

import math

import numpy as np


def cross_entropy(
    logits,
    targets,
    *,
    ignore_index=-100,
    label_smoothing=0.0,
    softcap=None,
    z_loss=0.0,
    reduction="averaged",
    no_tokens_left="nans",
):
    """The cross-entropy of targets [tokens] under the softmax of logits [tokens, vocab]: one number, or [tokens]."""
    if len(targets) != len(logits):
        raise ValueError("every token has a target")
    losses, counted = np.zeros(len(targets)), 0
    for t, y in enumerate(targets):
        if y == ignore_index:
            continue
        x = logits[t] if softcap is None else softcap * np.tanh(logits[t] / softcap)
        log_total = x.max() + math.log(np.exp(x - x.max()).sum())
        losses[t] = -(x[y] - log_total)
        if label_smoothing:
            losses[t] = (1 - label_smoothing) * losses[t] + label_smoothing * np.mean(log_total - x)
        losses[t] += z_loss * log_total**2
        counted += 1
    if reduction in ("each", "none"):
        return losses
    if reduction in ("summed", "sum"):
        return losses.sum()
    if not counted:
        return math.nan if no_tokens_left == "nans" else 0.0
    return losses.sum() / counted
