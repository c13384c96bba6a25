"""Divergences of a student from its teacher, and their gradients.

Hinton et al. 2015, arXiv:1503.02531; the generalised Jensen-Shannon divergence: Agarwal et al. 2024, arXiv:2306.13649,
section 2.
"""

import numpy as np


def left(log_probs, teacher, labels, ignore_index):
    """The tokens that are not ignored, as booleans [tokens]."""
    if teacher.shape != log_probs.shape:
        raise ValueError("student and teacher have one vocabulary")
    return np.ones(len(log_probs), bool) if labels is None else labels != ignore_index


def reduced(entries, valid, reduction):
    """The loss of entries [tokens, vocab] of which some rows are ignored."""
    kept = np.where(valid[:, None], entries, 0.0)
    if reduction == "none":
        return kept
    counts = {"batchmean": valid.sum(), "mean": valid.sum() * kept.shape[1], "sum": 1}
    return kept.sum() / counts[reduction] if counts[reduction] else np.nan


def flowing(pull, d_out, valid, reduction):
    """The gradients of entries, given those of a sum that is not reduced."""
    counts = {"batchmean": valid.sum(), "mean": valid.sum() * pull.shape[1], "sum": 1, "none": 1}
    if not counts[reduction]:
        return np.full(pull.shape, np.nan)
    return np.where(valid[:, None], pull * d_out / counts[reduction], 0.0)


def distillation_loss(
    log_probs, teacher, labels=None, *, beta=0.5, ignore_index=-100, reduction="batchmean", normalisation="outside"
):
    """The divergence of log_probs from teacher, both [tokens, vocab]: one number, or all entries for `none`."""
    valid = left(log_probs, teacher, labels, ignore_index)
    if normalisation == "inside":
        log_probs, teacher = log_softmax(log_probs), log_softmax(teacher)
    p, q = np.exp(teacher), np.exp(log_probs)
    if beta == 0:
        entries = p * (teacher - log_probs)
    elif beta == 1:
        entries = q * (log_probs - teacher)
    else:
        m = np.logaddexp(np.log(beta) + teacher, np.log1p(-beta) + log_probs)
        entries = beta * p * (teacher - m) + (1 - beta) * q * (log_probs - m)
    return reduced(entries, valid, reduction)


def distillation_loss_gradient(
    log_probs,
    teacher,
    d_out,
    labels=None,
    *,
    beta=0.5,
    ignore_index=-100,
    reduction="batchmean",
    normalisation="outside",
):
    """The gradients of sum(loss * d_out) with respect to log_probs: [tokens, vocab]."""
    valid = left(log_probs, teacher, labels, ignore_index)
    if normalisation == "inside":
        log_probs, teacher = log_softmax(log_probs), log_softmax(teacher)
    q = np.exp(log_probs)
    if beta == 0:
        pull = -np.exp(teacher)
    elif beta == 1:
        pull = q * (log_probs - teacher + 1)
    else:
        pull = (1 - beta) * q * (log_probs - np.logaddexp(np.log(beta) + teacher, np.log1p(-beta) + log_probs))
    if normalisation == "inside":
        pull = pull * d_out
        pull, d_out = pull - q * pull.sum(1, keepdims=True), 1.0
    return flowing(pull, d_out, valid, reduction)


def total_variation(probs, teacher, labels=None, *, ignore_index=-100, reduction="batchmean"):
    """Half of the absolute differences of probs from teacher, both [tokens, vocab]."""
    valid = left(probs, teacher, labels, ignore_index)
    return reduced(np.abs(probs - teacher) / 2, valid, reduction)


def total_variation_gradient(probs, teacher, d_out, labels=None, *, ignore_index=-100, reduction="batchmean"):
    """The gradients of sum(loss * d_out) with respect to probs: [tokens, vocab]."""
    valid = left(probs, teacher, labels, ignore_index)
    return flowing(np.sign(probs - teacher) / 2, d_out, valid, reduction)


def tempered(hidden, weight, temperature):
    """The log-probabilities of the words of a model: [tokens, vocab]."""
    return log_softmax(hidden @ weight.T / temperature)


def log_softmax(x):
    """The logarithms of the softmax of rows."""
    return x - np.logaddexp.reduce(x, axis=1, keepdims=True)


def linear_distillation_loss(
    hidden,
    weight,
    teacher_hidden,
    teacher_weight,
    labels=None,
    *,
    beta=0.5,
    temperature=1.0,
    ignore_index=-100,
):
    """The mean divergence of two models at a temperature.

    hidden [tokens, dim] and weight [vocab, dim]; those of the teacher may have another dim.
    """
    x, y = tempered(hidden, weight, temperature), tempered(teacher_hidden, teacher_weight, temperature)
    return distillation_loss(x, y, labels, beta=beta, ignore_index=ignore_index)


def linear_distillation_loss_gradient(
    hidden,
    weight,
    teacher_hidden,
    teacher_weight,
    d_out,
    labels=None,
    *,
    beta=0.5,
    temperature=1.0,
    ignore_index=-100,
):
    """The gradients of the loss times d_out with respect to hidden and weight."""
    x, y = tempered(hidden, weight, temperature), tempered(teacher_hidden, teacher_weight, temperature)
    pull = distillation_loss_gradient(x, y, d_out, labels, beta=beta, ignore_index=ignore_index)
    d_logits = (pull - np.exp(x) * pull.sum(1, keepdims=True)) / temperature
    return {"d_hidden": d_logits @ weight, "d_weight": d_logits.T @ hidden}
