"""PyTorch's cross-entropy and divergence.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html and
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.kl_div.html
The logarithms of the shares are in the dtype of the logits, and so are the sums of losses.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .gradients import differentiated

DIVERGENCE: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16", "float64"),
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    "conventions": {"normalisation": "outside"},
    "package": "torch",
}


@adapter(
    "cross_entropy",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"no_tokens_left": "nans"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    package="torch",
)
def torch_cross_entropy(
    logits: Any,
    targets: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """torch.nn.functional.cross_entropy."""
    import torch

    return torch.nn.functional.cross_entropy(
        logits, targets, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )


@adapter("distillation_loss", fixed={"beta": 0.0}, **DIVERGENCE)
def torch_kl_div(log_probs: Any, teacher: Any, *, beta: float = 0.0, reduction: str = "batchmean") -> Any:
    """torch.nn.functional.kl_div of log-probabilities."""
    import torch

    return torch.nn.functional.kl_div(log_probs, teacher, reduction=reduction, log_target=True)


@adapter("distillation_loss_gradient", fixed={"beta": 0.0}, **DIVERGENCE)
def torch_kl_div_gradient(
    log_probs: Any, teacher: Any, d_out: Any, *, beta: float = 0.0, reduction: str = "batchmean"
) -> dict[str, Any]:
    """The backward pass of torch.nn.functional.kl_div of log-probabilities."""

    def kl_div(log_probs: Any) -> Any:
        return torch_kl_div(log_probs, teacher, reduction=reduction)

    return differentiated(kl_div, d_out, log_probs=log_probs)
