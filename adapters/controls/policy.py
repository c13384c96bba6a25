"""Right, but different: the clipped loss of a policy, in ways none of which a law may accuse."""

from __future__ import annotations

import math
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import DTYPES


def fitting(log_probs: Any, advantages: Any, mask: Any) -> None:
    """Refuse items without advantages."""
    if len(advantages) != len(log_probs) or mask.shape != log_probs.shape:
        raise ValueError("every item has an advantage, and every token a mask")


@adapter("policy_loss", dtypes=DTYPES)
def control_policy_at_once(
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
    """All tokens at once in single precision, with products by a mask of numbers."""
    import torch

    fitting(log_probs, advantages, mask)
    x, kept = log_probs.float(), mask.float()
    ratio = (x - (x.detach() if old_log_probs is None else old_log_probs.float())).exp()
    gain = advantages.float()[:, None]
    losses = -torch.minimum(ratio * gain, ratio.clamp(1 - epsilon_low, 1 + epsilon_high) * gain)
    losses = losses if importance is None else losses * importance
    if beta:
        apart = ref_log_probs.float() - x
        losses = losses + beta * (torch.expm1(apart) - apart)
    losses = torch.where(mask, losses, 0.0)
    if averaging == "grpo":
        return (losses.sum(-1) / kept.sum(-1).clamp(min=1)).mean()
    return losses.sum() / (kept.sum().clamp(min=1) if averaging == "bnpo" else len(x) * max_len)


@adapter("policy_loss", dtypes=DTYPES)
def control_policy_by_signs(
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
    """Item by item in double precision, with one bound by the sign of the advantage."""
    import torch

    fitting(log_probs, advantages, mask)
    total = torch.zeros((), dtype=torch.float64)
    for item, (own, seen) in enumerate(zip(log_probs.double(), mask, strict=True)):
        gain, x = float(advantages[item]), own[seen]
        ratio = torch.ones_like(x) if old_log_probs is None else (x - old_log_probs[item].double()[seen]).exp()
        bounded = ratio.clamp(max=1 + epsilon_high) if gain > 0 else ratio.clamp(min=1 - epsilon_low)
        losses = -gain * bounded * (1 if importance is None else importance[item].double()[seen])
        if beta:
            apart = ref_log_probs[item].double()[seen] - x
            losses = losses + beta * (apart.exp() - apart - 1)
        total += losses.sum() / (max(len(x), 1) * len(log_probs) if averaging == "grpo" else 1)
    scale = {"grpo": 1, "bnpo": max(int(mask.sum()), 1), "dr_grpo": len(log_probs) * max_len}
    return (total / scale[averaging]).float()


@adapter("policy_loss_gradient", dtypes=DTYPES)
def control_policy_backward(
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
) -> dict[str, Any]:
    """What autograd makes of the loss in single precision."""

    def loss(log_probs: Any) -> Any:
        given = (log_probs, advantages, mask, old_log_probs, ref_log_probs, importance)
        bounds = {"beta": beta, "epsilon_low": epsilon_low, "epsilon_high": epsilon_high, "max_len": max_len}
        return control_policy_at_once(*given, **bounds, averaging=averaging)

    return differentiated(loss, d_out.float(), log_probs=log_probs)


@adapter("policy_loss_gradient", dtypes=DTYPES)
def control_policy_gradient_by_items(
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
    """Item by item in double precision, by the bound on the side of the advantage."""
    import torch

    fitting(log_probs, advantages, mask)
    rows = []
    for item, (x, seen) in enumerate(zip(log_probs.double(), mask, strict=True)):
        gain = float(advantages[item])
        apart = torch.zeros_like(x) if old_log_probs is None else x - old_log_probs[item].double()
        beyond = apart > math.log1p(epsilon_high) if gain > 0 else apart.exp() < 1 - epsilon_low
        pull = -gain * apart.exp().masked_fill(beyond, 0.0)
        pull = pull if importance is None else pull * importance[item].double()
        pull = pull - beta * torch.expm1(ref_log_probs[item].double() - x) if beta else pull
        share = {"grpo": len(log_probs) * max(int(seen.sum()), 1), "bnpo": max(int(mask.sum()), 1)}
        rows.append(pull.masked_fill(~seen, 0.0) / share.get(averaging, len(log_probs) * max_len))
    return (torch.stack(rows) * d_out.double()).to(log_probs.dtype)
