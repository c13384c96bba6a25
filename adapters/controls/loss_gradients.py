"""Right, but different: losses with the last product, and gradients, as fused kernels and autograd compute them."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .losses import control_cross_entropy_in_blocks, reduced

DTYPES = ("float32", "bfloat16", "float16")
CHUNK = 16
"""Tokens that are taken at a time."""


def pulled(
    x: Any, targets: Any, ignore_index: int, label_smoothing: float, softcap: float | None, z_loss: float
) -> Any:
    """The gradients of the losses of tokens with respect to their logits, in the precision of x [tokens, vocab]."""
    import torch

    if len(targets) != len(x):
        raise ValueError("every token has a target")
    bent = torch.zeros_like(x) if softcap is None else torch.tanh(x / softcap)
    capped = x if softcap is None else softcap * bent
    lse = capped.logsumexp(1, keepdim=True)
    found = (capped - lse).exp() * (1 + 2 * z_loss * lse) - label_smoothing / x.shape[1]
    valid = (targets != ignore_index)[:, None]
    place = targets.where(valid[:, 0], 0)[:, None]
    found.scatter_add_(1, place, torch.full(place.shape, label_smoothing - 1, dtype=found.dtype))
    return (found * (1 - bent.square())).masked_fill(~valid, 0.0)


def shares_of(d_out: Any, valid: Any, reduction: str) -> Any:
    """What each token's gradient is multiplied by: [tokens, 1]."""
    part = d_out / valid.sum() if reduction == "mean" else d_out
    return part.expand(len(valid))[:, None]


@adapter("cross_entropy_gradient", dtypes=DTYPES)
def control_logits_gradient(
    logits: Any,
    targets: Any,
    d_out: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """By the formula in float32, from the logsumexp."""
    found = pulled(logits.float(), targets, ignore_index, label_smoothing, softcap, z_loss)
    return (found * shares_of(d_out.float(), targets != ignore_index, reduction)).to(logits.dtype)


@adapter("cross_entropy_gradient", dtypes=DTYPES)
def control_logits_gradient_in_double(
    logits: Any,
    targets: Any,
    d_out: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """By the formula in double precision, rounded once."""
    found = pulled(logits.double(), targets, ignore_index, label_smoothing, softcap, z_loss)
    return (found * shares_of(d_out.double(), targets != ignore_index, reduction)).to(logits.dtype)


@adapter("cross_entropy_gradient", dtypes=DTYPES)
def control_differentiated_loss(
    logits: Any,
    targets: Any,
    d_out: Any,
    *,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Automatic differentiation of elementary operations, of which -100 is ignored."""
    import torch

    if len(targets) != len(logits):
        raise ValueError("every token has a target")
    valid = targets != -100

    def loss(logits: Any) -> Any:
        x = logits.float() if softcap is None else softcap * torch.tanh(logits.float() / softcap)
        logs = x.log_softmax(1)
        losses = -logs.gather(1, targets.where(valid, 0)[:, None])[:, 0]
        if label_smoothing:
            losses = (1 - label_smoothing) * losses - label_smoothing * logs.mean(1)
        return reduced((losses + z_loss * x.logsumexp(1).square()).where(valid, 0.0), valid, reduction)

    return differentiated(loss, d_out.float(), logits=logits)


@adapter("linear_cross_entropy", dtypes=DTYPES, conventions={"no_tokens_left": "nans"})
def control_loss_of_products(
    hidden: Any,
    weight: Any,
    targets: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """All logits in the dtype of the tokens, and their cross-entropy in blocks of words."""
    import torch

    logits = torch.nn.functional.linear(hidden, weight, bias)
    found = control_cross_entropy_in_blocks(
        logits,
        targets,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        softcap=softcap,
        z_loss=z_loss,
        reduction=reduction,
    )
    return found["loss"]


@adapter("linear_cross_entropy", dtypes=DTYPES, conventions={"no_tokens_left": "zeros"})
def control_loss_in_chunks(
    hidden: Any,
    weight: Any,
    targets: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Sixteen tokens at a time, whose logits are never rounded; the mean over none is zero."""
    import torch

    if len(targets) != len(hidden):
        raise ValueError("every token has a target")
    losses = []
    for h, y in zip(hidden.float().split(CHUNK), targets.split(CHUNK), strict=True):
        x = h @ weight.float().T + (0.0 if bias is None else bias.float())
        x = x if softcap is None else softcap * torch.tanh(x / softcap)
        valid, lse = y != ignore_index, x.logsumexp(1)
        picked = x.gather(1, y.where(valid, 0)[:, None])[:, 0]
        own = lse - (1 - label_smoothing) * picked - label_smoothing * x.mean(1) + z_loss * lse.square()
        losses.append(own.where(valid, 0.0))
    whole = torch.cat(losses)
    if reduction == "none":
        return whole
    return whole.sum() / ((targets != ignore_index).sum().clamp(min=1) if reduction == "mean" else 1)


@adapter("linear_cross_entropy_gradient", dtypes=DTYPES)
def control_gradients_by_products(
    hidden: Any,
    weight: Any,
    targets: Any,
    d_out: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """All logits and their gradients in the dtype of the tokens."""
    import torch

    logits = torch.nn.functional.linear(hidden, weight, bias).float()
    found = pulled(logits, targets, ignore_index, label_smoothing, softcap, z_loss)
    d_logits = (found * shares_of(d_out.float(), targets != ignore_index, reduction)).to(hidden.dtype)
    gradients = {"d_hidden": d_logits @ weight, "d_weight": d_logits.T @ hidden}
    return gradients if bias is None else gradients | {"d_bias": d_logits.float().sum(0).to(bias.dtype)}


@adapter("linear_cross_entropy_gradient", dtypes=DTYPES)
def control_gradients_in_chunks(
    hidden: Any,
    weight: Any,
    targets: Any,
    d_out: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Sixteen tokens at a time in double precision, added up for the weight, and multiplied by d_out in between."""
    import torch

    if len(targets) != len(hidden):
        raise ValueError("every token has a target")
    part = shares_of(d_out.double(), targets != ignore_index, reduction)
    w, d_hidden = weight.double(), []
    d_weight, d_bias = torch.zeros_like(w), torch.zeros(len(w), dtype=torch.float64)
    for h, y, own in zip(hidden.double().split(CHUNK), targets.split(CHUNK), part.split(CHUNK), strict=True):
        x = h @ w.T + (0.0 if bias is None else bias.double())
        d_x = pulled(x, y, ignore_index, label_smoothing, softcap, z_loss) * own
        d_hidden.append(d_x @ w)
        d_weight += d_x.T @ h
        d_bias += d_x.sum(0)
    found = {"d_hidden": torch.cat(d_hidden), "d_weight": d_weight} | ({} if bias is None else {"d_bias": d_bias})
    return {name: x.to(hidden.dtype) for name, x in found.items()}
