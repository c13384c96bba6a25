"""PyTorch's dropout.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html
It has no seed of its own and draws from torch's global generator, which is seeded for the call and then restored.
In sixteen bits the factor 1 / (1 - p) is rounded to the dtype before it is multiplied.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
GRADES = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"}


@adapter("dropout", dtypes=DTYPES, grade=GRADES, package="torch")
def torch_dropout(x: Any, *, p: float, seed: int, training: bool = True) -> Any:
    """torch.nn.functional.dropout after torch.manual_seed."""
    import torch

    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        torch.manual_seed(seed)
        dropped = torch.nn.functional.dropout(x, p, training)
    return dropped.clone() if dropped is x else dropped
