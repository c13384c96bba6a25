"""The cross-entropy of MLX, which knows no ignored targets.

Documentation: https://ml-explore.github.io/mlx/build/html/python/nn/_autosummary_functions/mlx.nn.losses.cross_entropy.html
On the CPU everything is in the dtype of the logits.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .gradients import pulled_back


@adapter(
    "cross_entropy",
    framework="mlx",
    dtypes=("float32", "bfloat16", "float16"),
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    requires="all(targets != ignore_index)",
    package="mlx.core",
    extra="mlx",
)
def mlx_cross_entropy(logits: Any, targets: Any, *, label_smoothing: float = 0.0, reduction: str = "mean") -> Any:
    """mlx.nn.losses.cross_entropy."""
    from mlx.nn import losses

    asked: Any = reduction  # annotated as one of three texts there
    return losses.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction=asked)


@adapter(
    "cross_entropy_gradient",
    framework="mlx",
    dtypes=("float32", "bfloat16", "float16"),
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    requires="all(targets != ignore_index)",
    package="mlx.core",
    extra="mlx",
)
def mlx_cross_entropy_gradient(
    logits: Any, targets: Any, d_out: Any, *, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    """mlx.core.vjp of mlx.nn.losses.cross_entropy."""

    def loss(logits: Any) -> Any:
        return mlx_cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction=reduction)

    return pulled_back(loss, d_out, logits=logits)
