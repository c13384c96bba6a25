"""Right, but different: losses as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def reduced(losses: Any, valid: Any, reduction: str) -> Any:
    """The losses of all tokens, zeros for those that are ignored, as one number or as they are."""
    if reduction == "none":
        return losses
    return losses.sum() / valid.sum() if reduction == "mean" else losses.sum()


@adapter("cross_entropy", dtypes=DTYPES, conventions={"no_tokens_left": "nans"})
def control_cross_entropy_in_blocks(
    logits: Any,
    targets: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Blocks of 16 words with a running maximum and sum."""
    import torch

    if len(targets) != len(logits):
        raise ValueError("every token has a target")
    x = logits.float() if softcap is None else softcap * torch.tanh(logits.float() / softcap)
    top, whole = torch.full((len(x),), -torch.inf), torch.zeros(len(x))
    for block in x.split(16, 1):
        new = torch.maximum(top, block.amax(1))
        whole = whole * (top - new).exp() + (block - new[:, None]).exp().sum(1)
        top = new
    valid, lse = targets != ignore_index, top + whole.log()
    picked = x.gather(1, targets.where(valid, 0)[:, None])[:, 0]
    losses = lse - picked
    if label_smoothing:
        losses = losses + label_smoothing * (picked - x.mean(1))
    return {"loss": reduced((losses + z_loss * lse.square()).where(valid, 0.0), valid, reduction), "lse": lse}


@adapter("cross_entropy", dtypes=DTYPES, conventions={"no_tokens_left": "zeros"})
def control_cross_entropy_of_the_valid(
    logits: Any,
    targets: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """In double precision, of the tokens that are not ignored alone; the mean over none is zero."""
    import torch

    if len(targets) != len(logits):
        raise ValueError("every token has a target")
    valid = targets != ignore_index
    x, y = logits.double()[valid], targets[valid]
    x = x if softcap is None else softcap * torch.tanh(x / softcap)
    shares = torch.full(x.shape, label_smoothing / x.shape[1], dtype=torch.float64)
    shares = shares.scatter_add(1, y[:, None], torch.full((len(y), 1), 1 - label_smoothing, dtype=torch.float64))
    lse = x.logsumexp(1)
    losses = -torch.where(shares > 0, shares * x.log_softmax(1), 0.0).sum(1) + z_loss * lse.square()
    each, noted = (torch.zeros(len(targets), dtype=torch.float64).masked_scatter(valid, one) for one in (losses, lse))
    loss = each if reduction == "none" else losses.sum() / (max(len(y), 1) if reduction == "mean" else 1)
    return {"loss": loss.float(), "lse": noted.float()}
