"""Right, but different: divergences of a student from its teacher, and their gradients."""

from __future__ import annotations

import math
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import DTYPES

OUTSIDE, INSIDE = {"normalisation": "outside"}, {"normalisation": "inside"}


def fitting(student: Any, teacher: Any) -> None:
    """Refuse another vocabulary."""
    if student.shape != teacher.shape:
        raise ValueError("student and teacher have one vocabulary")


def valid_of(x: Any, labels: Any, ignore_index: int) -> Any:
    """The tokens that are not ignored: [tokens, 1]."""
    import torch

    return torch.ones(len(x), 1, dtype=torch.bool) if labels is None else (labels != ignore_index)[:, None]


def reduced(entries: Any, valid: Any, reduction: str) -> Any:
    """The loss of entries [tokens, vocab]."""
    import torch

    kept = torch.where(valid, entries, 0.0)
    if reduction in ("none", "sum"):
        return kept if reduction == "none" else kept.sum()
    return kept.sum() / (valid.sum() * (kept.shape[1] if reduction == "mean" else 1))


def entries_by_mixture(x: Any, y: Any, beta: float) -> Any:
    """Of log-probabilities x of the student and y of the teacher, by the logarithm of the mixture."""
    import torch

    if beta in (0, 1):
        return x.exp() * (x - y) if beta else y.exp() * (y - x)
    mixed = torch.logaddexp(y + math.log(beta), x + math.log1p(-beta))
    return beta * y.exp() * (y - mixed) + (1 - beta) * x.exp() * (x - mixed)


def double_loss(
    student: Any, teacher: Any, valid: Any, beta: float, reduction: str, *, normalised: bool = False
) -> Any:
    """The loss in double precision, of logits if they are to be normalised."""
    fitting(student, teacher)
    x, y = (each.double().log_softmax(-1) if normalised else each.double() for each in (student, teacher))
    return reduced(entries_by_mixture(x, y, beta), valid, reduction)


@adapter("distillation_loss", dtypes=DTYPES, conventions=OUTSIDE)
def control_distillation_by_mixture(
    log_probs: Any,
    teacher: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> Any:
    """All entries at once in single precision."""
    fitting(log_probs, teacher)
    entries = entries_by_mixture(log_probs.float(), teacher.float(), beta)
    return reduced(entries, valid_of(log_probs, labels, ignore_index), reduction)


@adapter("distillation_loss", dtypes=DTYPES, conventions=OUTSIDE)
def control_distillation_by_entropies(
    log_probs: Any,
    teacher: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> Any:
    """Token by token in double precision, as the entropy of the mixture less those of both."""
    import torch

    fitting(log_probs, teacher)
    rows = []
    for x, y in zip(log_probs.double(), teacher.double(), strict=True):
        larger = torch.maximum(x, y)
        mixed = larger + (beta * (y - larger).exp() + (1 - beta) * (x - larger).exp()).log()
        rows.append(beta * y.exp() * y + (1 - beta) * x.exp() * x - mixed.exp() * mixed)
        if beta in (0, 1):
            rows[-1] = entries_by_mixture(x, y, beta)
    return reduced(torch.stack(rows).float(), valid_of(log_probs, labels, ignore_index), reduction)


@adapter("distillation_loss_gradient", dtypes=DTYPES, conventions=OUTSIDE)
def control_distillation_gradient(
    log_probs: Any,
    teacher: Any,
    d_out: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> Any:
    """By the formula in single precision, for a loss of one gradient that is multiplied later."""
    import torch

    fitting(log_probs, teacher)
    x, y, valid = log_probs.float(), teacher.float(), valid_of(log_probs, labels, ignore_index)
    if beta in (0, 1):
        pull = x.exp() * (x - y + 1) if beta else -y.exp()
    else:
        apart = y - x
        mixed = (
            torch.where(apart > 0, apart, 0.0)
            + (beta * apart.clamp(max=0).exp() + (1 - beta) * (-apart).clamp(max=0).exp()).log()
        )
        pull = -(1 - beta) * x.exp() * mixed
    divisor = {"batchmean": valid.sum(), "mean": valid.sum() * x.shape[1]}.get(reduction, 1)
    return (torch.where(valid, pull / divisor, 0.0) * d_out.float()).to(log_probs.dtype)


@adapter("distillation_loss_gradient", dtypes=DTYPES, conventions=OUTSIDE)
def control_distillation_backward(
    log_probs: Any,
    teacher: Any,
    d_out: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> dict[str, Any]:
    """What autograd makes of the loss in double precision."""
    valid = valid_of(log_probs, labels, ignore_index)
    return differentiated(
        lambda log_probs: double_loss(log_probs, teacher, valid, beta, reduction), d_out.double(), log_probs=log_probs
    )


@adapter("distillation_loss", dtypes=DTYPES, conventions=INSIDE)
def control_distillation_of_logits(
    log_probs: Any,
    teacher: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> Any:
    """Of logits, the logarithms of softmax in double precision."""
    valid = valid_of(log_probs, labels, ignore_index)
    return double_loss(log_probs, teacher, valid, beta, reduction, normalised=True).float()


@adapter("distillation_loss_gradient", dtypes=DTYPES, conventions=INSIDE)
def control_distillation_backward_of_logits(
    log_probs: Any,
    teacher: Any,
    d_out: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> dict[str, Any]:
    """What autograd makes of the loss of logits in double precision."""
    valid = valid_of(log_probs, labels, ignore_index)
    return differentiated(
        lambda log_probs: double_loss(log_probs, teacher, valid, beta, reduction, normalised=True),
        d_out.double(),
        log_probs=log_probs,
    )


@adapter("total_variation", dtypes=DTYPES)
def control_variation_by_differences(
    probs: Any, teacher: Any, labels: Any = None, *, ignore_index: int = -100, reduction: str = "batchmean"
) -> Any:
    """All differences at once in single precision."""
    fitting(probs, teacher)
    entries = (probs.float() - teacher.float()).abs() / 2
    return reduced(entries, valid_of(probs, labels, ignore_index), reduction)


@adapter("total_variation", dtypes=DTYPES)
def control_variation_by_parts(
    probs: Any, teacher: Any, labels: Any = None, *, ignore_index: int = -100, reduction: str = "batchmean"
) -> Any:
    """What the larger ones have more than the smaller ones, token by token in double precision."""
    import torch

    fitting(probs, teacher)
    rows = [torch.maximum(x, y) - torch.minimum(x, y) for x, y in zip(probs.double(), teacher.double(), strict=True)]
    return reduced(torch.stack(rows).div(2), valid_of(probs, labels, ignore_index), reduction).float()


@adapter("total_variation_gradient", dtypes=DTYPES)
def control_variation_gradient(
    probs: Any, teacher: Any, d_out: Any, labels: Any = None, *, ignore_index: int = -100, reduction: str = "batchmean"
) -> Any:
    """By comparisons, multiplied in single precision."""
    import torch

    fitting(probs, teacher)
    valid = valid_of(probs, labels, ignore_index)
    pull = ((probs > teacher).float() - (probs < teacher).float()) / 2
    divisor = {"batchmean": valid.sum(), "mean": valid.sum() * probs.shape[1]}.get(reduction, 1)
    return torch.where(valid, pull * (d_out.float() / divisor), 0.0).to(probs.dtype)


@adapter("total_variation_gradient", dtypes=DTYPES)
def control_variation_backward(
    probs: Any, teacher: Any, d_out: Any, labels: Any = None, *, ignore_index: int = -100, reduction: str = "batchmean"
) -> dict[str, Any]:
    """What autograd makes of the absolute differences in double precision."""
    fitting(probs, teacher)

    def loss(probs: Any) -> Any:
        entries = (probs.double() - teacher.double()).abs() / 2
        return reduced(entries, valid_of(probs, labels, ignore_index), reduction)

    return differentiated(loss, d_out.double(), probs=probs)
