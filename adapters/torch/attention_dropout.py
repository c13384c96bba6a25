"""PyTorch's scaled dot-product attention with dropout of the weights.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
It drops whenever `dropout_p` is not zero, and draws from torch's global generator, which is seeded for the call and
then restored.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import CONVENTIONS, DTYPES, attention


@adapter("attention", dtypes=DTYPES, conventions=CONVENTIONS, package="torch")
def torch_sdpa_dropout(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention with dropout_p, after torch.manual_seed."""
    import torch

    with torch.random.fork_rng(devices=[q.device] if q.is_cuda else []):
        if seed is not None:
            torch.manual_seed(seed)
        return attention(q, k, v, causal, mask, bias, scale, dropout_p)
