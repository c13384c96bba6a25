"""PyTorch's einsum and its broadcasting of shapes.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.einsum.html and
https://docs.pytorch.org/docs/stable/generated/torch.broadcast_shapes.html
What is summed before operands meet is stored in their dtype.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "einsum",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    package="torch",
)
def torch_einsum(a: Any, b: Any, *, equation: str = "ij,jk->ik") -> Any:
    """torch.einsum of two operands."""
    import torch

    return torch.einsum(equation, a, b)


@adapter("broadcast_shapes", package="torch")
def torch_broadcast_shapes(first: Any, second: Any) -> Any:
    """torch.broadcast_shapes of two shapes."""
    import torch

    return torch.tensor(torch.broadcast_shapes(tuple(first.tolist()), tuple(second.tolist())), dtype=torch.int64)


@adapter("broadcast_shapes", package="torch")
def torch_broadcast_tensors(first: Any, second: Any) -> Any:
    """The shape that torch.broadcast_tensors gives to tensors without memory."""
    import torch

    tensors = [torch.empty(tuple(shape.tolist()), device="meta") for shape in (first, second)]
    return torch.tensor(torch.broadcast_tensors(*tensors)[0].shape, dtype=torch.int64)
