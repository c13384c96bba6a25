"""PyTorch's cross-entropy.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html
The logarithms of the shares are in the dtype of the logits, and so are the sums of losses.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


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
