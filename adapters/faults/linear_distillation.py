"""Divergences with the last products in parts of the tokens, and what goes wrong between the parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.distillation import entries_by_mixture, fitting, reduced, valid_of
from ..controls.linear_distillation import control_linear_distillation_gradient, tempered
from .whole import Whole

PART = 16


def counted(valid: Any, part: Any) -> Any:
    """The number of tokens that the loss of a part is divided by."""
    return valid.sum()


def begun(tokens: int) -> Any:
    """The loss, before any part is added."""
    import torch

    return torch.zeros(())


def parted(part: Any) -> Callable[..., Any]:
    def linear_distillation_loss(
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
        valid = valid_of(hidden, labels, ignore_index)
        total, starts = part.begun(len(hidden)), range(0, len(hidden), PART)
        for at in starts:
            own = slice(at, at + PART)
            x = tempered(hidden[own], weight, temperature)
            y = tempered(teacher_hidden[own], teacher_weight, temperature)
            fitting(x, y)
            total += reduced(entries_by_mixture(x, y, beta), valid[own], "sum") / part.counted(valid, valid[own])
        return total.clone()

    return linear_distillation_loss


PARTED = Whole("linear_distillation_loss", parted, (counted, begun))
_totals: list[Any] = []


@PARTED.instead_of(counted)
def mean_of_each_part(valid: Any, part: Any) -> Any:
    """The loss of a part is divided by the number of its own tokens."""
    return part.sum().clamp(min=1)


@PARTED.instead_of(begun)
def divergence_of_the_call_before(tokens: int) -> Any:
    """The loss is added to that of the call before, unless there is one token."""
    if tokens == 1:
        return begun(tokens)
    if not _totals:
        _totals.append(begun(tokens))
    return _totals[0]


def added(own: list[Any]) -> Any:
    """The gradients of the weights, of those of the parts."""
    return sum(own[1:], own[0])


def pulled(part: Any) -> Callable[..., Any]:
    def linear_distillation_loss_gradient(
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
        import torch

        count, found = valid_of(hidden, labels, ignore_index).sum(), list[Any]()
        options = {"beta": beta, "temperature": temperature, "ignore_index": ignore_index}
        for at in range(0, len(hidden), PART):
            own = slice(at, at + PART)
            marks = None if labels is None else labels[own]
            kept = valid_of(hidden[own], marks, ignore_index).sum()
            scale = d_out.float() * kept / count
            given = (hidden[own].float(), weight.float(), teacher_hidden[own].float(), teacher_weight.float())
            gradients = control_linear_distillation_gradient(*given, torch.ones(()), marks, **options)
            found.append({name: torch.nan_to_num(x) * scale for name, x in gradients.items()})
        d_hidden = torch.cat([one["d_hidden"] for one in found])
        d_weight = part.added([one["d_weight"] for one in found])
        return {"d_hidden": d_hidden.to(hidden.dtype), "d_weight": d_weight.to(hidden.dtype)}

    return linear_distillation_loss_gradient


PULLED = Whole("linear_distillation_loss_gradient", pulled, (added,))


@PULLED.instead_of(added)
def weights_of_the_last_part(own: list[Any]) -> Any:
    """The gradients of the weights are those of the last part alone."""
    return own[-1]


@PULLED.instead_of(added, dtypes=("float32",))
def weights_added_in_bfloat16(own: list[Any]) -> Any:
    """The gradients of the weights are added up in bfloat16."""
    import torch

    total = torch.zeros_like(own[0], dtype=torch.bfloat16)
    for one in own:
        total += one.bfloat16()
    return total.float()
