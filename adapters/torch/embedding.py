"""Learned positions by PyTorch's embedding.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter("learned_position", dtypes=("float32", "bfloat16", "float16", "float64"), package="torch")
def torch_embedding(x: Any, table: Any, *, offset: int = 0) -> Any:
    """torch.nn.functional.embedding of the positions from the offset on."""
    import torch

    positions = torch.arange(offset, offset + x.shape[1], device=x.device)
    return x + torch.nn.functional.embedding(positions, table)
