"""The clipped loss of a policy, token by token.

Shao et al. 2024, DeepSeekMath, arXiv:2402.03300, section 4.1.1, equations 3 and 4.
"""

import numpy as np


def policy_loss(
    log_probs,
    advantages,
    mask,
    old_log_probs=None,
    ref_log_probs=None,
    importance=None,
    *,
    beta=0.0,
    epsilon_low=0.2,
    epsilon_high=0.2,
    averaging="grpo",
    max_len=1,
):
    """One number, of `log_probs` and `mask [items, length]` and `advantages [items]`."""
    items, length = log_probs.shape
    if len(advantages) != items or mask.shape != log_probs.shape:
        raise ValueError("an advantage for each item, and a mask for each token")
    losses = np.zeros((items, length))
    reference = log_probs if ref_log_probs is None else ref_log_probs
    for i, t in np.argwhere(mask):
        rho = 1.0 if old_log_probs is None else np.exp(log_probs[i, t] - old_log_probs[i, t])
        A = advantages[i]
        gained = min(rho * A, np.clip(rho, 1 - epsilon_low, 1 + epsilon_high) * A)
        losses[i, t] = -gained * (1 if importance is None else importance[i, t])
        if beta:
            d = reference[i, t] - log_probs[i, t]
            losses[i, t] += beta * (np.exp(d) - d - 1)
    if averaging == "grpo":
        return np.mean([own.sum() / max(seen.sum(), 1) for own, seen in zip(losses, mask, strict=True)])
    return losses.sum() / (max(mask.sum(), 1) if averaging == "bnpo" else items * max_len)


def policy_loss_gradient(
    log_probs,
    advantages,
    mask,
    d_out,
    old_log_probs=None,
    ref_log_probs=None,
    importance=None,
    *,
    beta=0.0,
    epsilon_low=0.2,
    epsilon_high=0.2,
    averaging="grpo",
    max_len=1,
):
    """The gradients of the loss times d_out with respect to log_probs: [items, length]."""
    items, length = log_probs.shape
    if len(advantages) != items or mask.shape != log_probs.shape:
        raise ValueError("an advantage for each item, and a mask for each token")
    found = np.zeros((items, length))
    for i, t in np.argwhere(mask):
        rho = 1.0 if old_log_probs is None else np.exp(log_probs[i, t] - old_log_probs[i, t])
        A, weight = advantages[i], 1.0 if importance is None else importance[i, t]
        open_ = rho <= 1 + epsilon_high if A > 0 else rho >= 1 - epsilon_low
        pull = -rho * A * weight if open_ else 0.0
        if beta:
            pull += beta * (1 - np.exp((log_probs if ref_log_probs is None else ref_log_probs)[i, t] - log_probs[i, t]))
        counts = {"grpo": items * max(mask[i].sum(), 1), "bnpo": max(mask.sum(), 1), "dr_grpo": items * max_len}
        found[i, t] = pull * d_out / counts[averaging]
    return found
