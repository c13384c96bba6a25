"""PyTorch's softmax and its logarithm.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html and
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "softmax",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"empty_row": "nans"},
    package="torch",
)
def torch_softmax(x: Any) -> Any:
    """torch.nn.functional.softmax over the last axis."""
    import torch

    return torch.nn.functional.softmax(x, dim=-1)


@adapter(
    "log_softmax",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    package="torch",
)
def torch_log_softmax(x: Any) -> Any:
    """torch.nn.functional.log_softmax over the last axis."""
    import torch

    if not x.shape[-1]:
        raise ValueError("a row has entries")
    return torch.nn.functional.log_softmax(x, -1)
