"""Right, but different: divergences with the products that make logits, and their gradients."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .distillation import DTYPES, control_distillation_gradient, entries_by_mixture, fitting, reduced, valid_of

PART = 16
"""Tokens that are taken at a time."""


def tempered(hidden: Any, weight: Any, temperature: float) -> Any:
    """The log-probabilities of words, of logits in the dtype of the inputs: [tokens, vocab]."""
    return ((hidden @ weight.mT).float() / temperature).log_softmax(-1)


@adapter("linear_distillation_loss", dtypes=DTYPES)
def control_linear_distillation_in_parts(
    hidden: Any,
    weight: Any,
    teacher_hidden: Any,
    teacher_weight: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    temperature: float = 1.0,
    ignore_index: int = -100,
) -> Any:
    """A few tokens at a time, and the mean at the end."""
    import torch

    total, valid = torch.zeros(()), valid_of(hidden, labels, ignore_index)
    for at in range(0, len(hidden), PART):
        own = slice(at, at + PART)
        x = tempered(hidden[own], weight, temperature)
        y = tempered(teacher_hidden[own], teacher_weight, temperature)
        fitting(x, y)
        total += reduced(entries_by_mixture(x, y, beta), valid[own], "sum")
    return total / valid.sum()


@adapter("linear_distillation_loss", dtypes=DTYPES)
def control_linear_distillation_in_double(
    hidden: Any,
    weight: Any,
    teacher_hidden: Any,
    teacher_weight: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    temperature: float = 1.0,
    ignore_index: int = -100,
) -> Any:
    """Only the tokens that are not ignored, in double precision."""
    kept = valid_of(hidden, labels, ignore_index)[:, 0]
    models = ((hidden, weight), (teacher_hidden, teacher_weight))
    x, y = ((h[kept].double() @ w.double().mT / temperature).log_softmax(-1) for h, w in models)
    fitting(x, y)
    return (entries_by_mixture(x, y, beta).sum() / kept.sum()).float()


@adapter("linear_distillation_loss_gradient", dtypes=DTYPES)
def control_linear_distillation_gradient(
    hidden: Any,
    weight: Any,
    teacher_hidden: Any,
    teacher_weight: Any,
    d_out: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    temperature: float = 1.0,
    ignore_index: int = -100,
) -> Any:
    """By the formula for a loss of one gradient, in single precision from the logits on, multiplied at the end."""
    import torch

    x = tempered(hidden, weight, temperature)
    y = tempered(teacher_hidden, teacher_weight, temperature)
    pull = control_distillation_gradient(x, y, torch.ones(()), labels, beta=beta, ignore_index=ignore_index)
    to_logits = ((pull - x.exp() * pull.sum(-1, keepdim=True)) / temperature * d_out.float()).to(hidden.dtype)
    return {"d_hidden": to_logits @ weight, "d_weight": to_logits.mT @ hidden}


@adapter("linear_distillation_loss_gradient", dtypes=DTYPES)
def control_linear_distillation_backward(
    hidden: Any,
    weight: Any,
    teacher_hidden: Any,
    teacher_weight: Any,
    d_out: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    temperature: float = 1.0,
    ignore_index: int = -100,
) -> dict[str, Any]:
    """What autograd makes of the loss in double precision."""

    def loss(hidden: Any, weight: Any) -> Any:
        models = ((hidden, weight), (teacher_hidden, teacher_weight))
        x, y = ((h.double() @ w.double().mT / temperature).log_softmax(-1) for h, w in models)
        fitting(x, y)
        return reduced(entries_by_mixture(x, y, beta), valid_of(hidden, labels, ignore_index), "batchmean")

    return differentiated(loss, d_out.double(), hidden=hidden, weight=weight)
