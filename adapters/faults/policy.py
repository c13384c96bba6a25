"""The clipped loss of a policy in parts of the batch, as fused kernels compute it, and what goes wrong between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.policy import control_policy_at_once, control_policy_gradient_by_items, fitting
from .whole import Whole

PART = 4


def counted(mask: Any, part: Any) -> Any:
    """The number of tokens that a part is divided by."""
    return mask.sum().clamp(min=1)


def begun() -> Any:
    """The loss, before any part is added."""
    import torch

    return torch.zeros(())


def chunked(part: Any) -> Callable[..., Any]:
    def policy_loss(
        log_probs: Any,
        advantages: Any,
        mask: Any,
        old_log_probs: Any = None,
        ref_log_probs: Any = None,
        importance: Any = None,
        *,
        beta: float = 0.0,
        epsilon_low: float = 0.2,
        epsilon_high: float = 0.2,
        averaging: str = "grpo",
        max_len: int = 1,
    ) -> Any:
        fitting(log_probs, advantages, mask)
        total, items = part.begun(), len(log_probs)
        bounds = {"beta": beta, "epsilon_low": epsilon_low, "epsilon_high": epsilon_high, "max_len": max_len}
        for start in range(0, items, PART):
            own = slice(start, start + PART)
            given = [None if x is None else x[own] for x in (old_log_probs, ref_log_probs, importance)]
            kind = "dr_grpo" if averaging == "bnpo" else averaging
            found = control_policy_at_once(log_probs[own], advantages[own], mask[own], *given, **bounds, averaging=kind)
            size = len(log_probs[own])
            scale = size * max_len / part.counted(mask, mask[own]) if averaging == "bnpo" else size / items
            total += found * scale
        return total.clone()

    return policy_loss


CHUNKED = Whole("policy_loss", chunked, (counted, begun))
_total: list[Any] = []


@CHUNKED.instead_of(counted, seen="huggingface/trl#5890")
def counts_of_the_part(mask: Any, part: Any) -> Any:
    """Each part is divided by the number of its own tokens, and not of all."""
    return part.sum().clamp(min=1)


@CHUNKED.instead_of(begun)
def loss_of_the_call_before(*_: Any) -> Any:
    """The loss is added to that of the call before."""
    if not _total:
        _total.append(begun())
    return _total[0]


def kept(log_probs: Any) -> Any:
    """What the forward pass keeps of the log-probabilities."""
    return log_probs.float()


def multiplied(gradients: Any, d_out: Any) -> Any:
    """The gradients for a gradient of the loss of one, times that of the loss."""
    return gradients * d_out


def pulled(part: Any) -> Callable[..., Any]:
    def policy_loss_gradient(
        log_probs: Any,
        advantages: Any,
        mask: Any,
        d_out: Any,
        old_log_probs: Any = None,
        ref_log_probs: Any = None,
        importance: Any = None,
        *,
        beta: float = 0.0,
        epsilon_low: float = 0.2,
        epsilon_high: float = 0.2,
        averaging: str = "grpo",
        max_len: int = 1,
    ) -> Any:
        import torch

        own = part.kept(log_probs)
        given = (own, advantages, mask, torch.ones(()), old_log_probs, ref_log_probs, importance)
        bounds = {"beta": beta, "epsilon_low": epsilon_low, "epsilon_high": epsilon_high, "max_len": max_len}
        found = control_policy_gradient_by_items(*given, **bounds, averaging=averaging)
        return part.multiplied(found, d_out.float()).to(log_probs.dtype)

    return policy_loss_gradient


PULLED = Whole("policy_loss_gradient", pulled, (kept, multiplied))


@PULLED.instead_of(kept, dtypes=("float32",))
def kept_in_bfloat16(log_probs: Any) -> Any:
    """The forward pass keeps the log-probabilities in bfloat16, from which the ratios are made again."""
    return log_probs.bfloat16().float()


@PULLED.instead_of(multiplied)
def multiplied_where_positive(gradients: Any, d_out: Any) -> Any:
    """A negative gradient of the loss is taken to be zero."""
    return gradients * d_out.clamp(min=0)
