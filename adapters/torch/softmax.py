"""PyTorch's softmax, of scores that are hidden too, and its logarithm.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html,
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html and
https://docs.pytorch.org/docs/stable/generated/torch.Tensor.masked_fill.html
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


@adapter(
    "masked_softmax",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"empty_row": "nans", "causal_alignment": "bottom_right"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    fixed={"max_bias": 0.0},
    package="torch",
)
def torch_masked_softmax(
    x: Any, *, mask: Any = None, bias: Any = None, scale: float = 1.0, causal: bool = False
) -> Any:
    """torch.nn.functional.softmax of scaled scores, of which torch.Tensor.masked_fill hides some."""
    import torch

    scores = x * scale if bias is None else x * scale + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if causal:
        future = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1 + x.shape[-1] - x.shape[-2])
        scores = scores.masked_fill(future, -torch.inf)
    return torch.nn.functional.softmax(scores, dim=-1)
