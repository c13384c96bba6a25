"""PyTorch's softmax.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html
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
