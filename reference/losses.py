"""The loss of a language model, of logits and with the product that makes them, and its gradients.

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
    """The cross-entropy of targets [tokens] under the softmax of logits [tokens, vocab]: one number, or [tokens].

    Its other output, lse [tokens], is the logsumexp of the capped logits, NaN for ignored tokens.
    """
    if len(targets) != len(logits):
        raise ValueError("every token has a target")
    losses, lse, counted = np.zeros(len(targets)), np.full(len(targets), np.nan), 0
    for t, y in enumerate(targets):
        if y == ignore_index:
            continue
        x = logits[t] if softcap is None else softcap * np.tanh(logits[t] / softcap)
        log_total = x.max() + math.log(np.exp(x - x.max()).sum())
        losses[t], lse[t] = -(x[y] - log_total), log_total
        if label_smoothing:
            losses[t] = (1 - label_smoothing) * losses[t] + label_smoothing * np.mean(log_total - x)
        losses[t] += z_loss * log_total**2
        counted += 1
    loss = losses if reduction in ("each", "none") else losses.sum()
    if reduction in ("averaged", "mean"):
        loss = losses.sum() / counted if counted else math.nan if no_tokens_left == "nans" else 0.0
    return {"loss": loss, "lse": lse}


def cross_entropy_gradient(
    logits,
    targets,
    d_out,
    *,
    ignore_index=-100,
    label_smoothing=0.0,
    softcap=None,
    z_loss=0.0,
    reduction="averaged",
):
    """The gradient of sum(loss * d_out) with respect to the logits, in their shape, token by token.

    d_out is one number, or [tokens] where nothing is reduced. The mean over no tokens has none.
    """
    if len(targets) != len(logits):
        raise ValueError("every token has a target")
    each = reduction in ("each", "none")
    share = 1 / max(1, sum(y != ignore_index for y in targets)) if reduction in ("averaged", "mean") else 1
    found = np.zeros(logits.shape)
    for t, y in enumerate(targets):
        if y == ignore_index:
            continue
        x = logits[t] if softcap is None else softcap * np.tanh(logits[t] / softcap)
        top = x.max()
        weights = np.exp(x - top)
        log_total = top + math.log(weights.sum())
        row = weights / weights.sum() * (1 + 2 * z_loss * log_total) - label_smoothing / len(x)
        row[y] -= 1 - label_smoothing
        if softcap is not None:
            row = row / np.cosh(logits[t] / softcap) ** 2
        found[t] = row * share * (d_out[t] if each else d_out)
    return found


def linear_cross_entropy(hidden, weight, targets, *, bias=None, **options):
    """The cross-entropy of the logits hidden @ weight.T + bias, with the options of `cross_entropy`.

    hidden [tokens, dim], weight [vocab, dim], bias [vocab], targets [tokens].
    """
    return cross_entropy(projected(hidden, weight, bias), targets, **options)["loss"]


def linear_cross_entropy_gradient(hidden, weight, targets, d_out, *, bias=None, **options):
    """The gradients of sum(loss * d_out), token by token: d_hidden, d_weight and d_bias, zero without a bias."""
    d_logits = cross_entropy_gradient(projected(hidden, weight, bias), targets, d_out, **options)
    d_hidden, d_weight = np.zeros(hidden.shape), np.zeros(weight.shape)
    for t, row in enumerate(d_logits):
        d_hidden[t] = row @ weight
        d_weight += np.outer(row, hidden[t])
    d_bias = np.zeros(()) if bias is None else d_logits.sum(0)
    return {"d_hidden": d_hidden, "d_weight": d_weight, "d_bias": d_bias}


def projected(hidden, weight, bias):
    """The logits of all tokens: [tokens, vocab]."""
    if hidden.shape[1] != weight.shape[1]:
        raise ValueError("tokens and weights have as many channels")
    return np.array([weight @ h for h in hidden]).reshape(len(hidden), len(weight)) + (0 if bias is None else bias)
