"""PyTorch's cross-entropy with the last matrix product, and the gradients of its losses, by automatic differentiation.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear_cross_entropy.html and
https://docs.pytorch.org/docs/stable/generated/torch.nn.LinearCrossEntropyOptions.html
Without options it is the cross-entropy of the product; with them tokens are taken in chunks, and gradients are computed
in the forward pass.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

from .. import adapter
from .gradients import differentiated

DTYPES = ("float32", "bfloat16", "float16", "float64")
declared = functools.partial(
    adapter, dtypes=DTYPES, grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"}, package="torch"
)
NANS = {"no_tokens_left": "nans"}


@declared("cross_entropy_gradient")
def torch_cross_entropy_gradient(
    logits: Any,
    targets: Any,
    d_out: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Gradient of torch.nn.functional.cross_entropy."""
    import torch

    more = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": reduction}

    def loss(logits: Any) -> Any:
        return torch.nn.functional.cross_entropy(logits, targets, **more)

    return differentiated(loss, d_out, logits=logits)


def fused(hidden: Any, weight: Any, bias: Any = None, *, targets: Any, chunked: bool, **more: Any) -> Any:
    """linear_cross_entropy, of all tokens at once or of eight at a time."""
    import torch

    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=8) if chunked else None
    call = torch.nn.functional.linear_cross_entropy
    return call(hidden, weight, targets, linear_bias=bias, options=options, **more)


@declared("linear_cross_entropy", conventions=NANS)
def torch_linear_cross_entropy(
    hidden: Any,
    weight: Any,
    targets: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """torch.nn.functional.linear_cross_entropy."""
    more = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": reduction}
    return fused(hidden, weight, bias, targets=targets, chunked=False, **more)


@declared("linear_cross_entropy", conventions=NANS)
def torch_linear_cross_entropy_chunked(
    hidden: Any,
    weight: Any,
    targets: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """torch.nn.functional.linear_cross_entropy with LinearCrossEntropyOptions of eight tokens a chunk."""
    more = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": reduction}
    return fused(hidden, weight, bias, targets=targets, chunked=True, **more)


@declared("linear_cross_entropy_gradient")
def torch_linear_cross_entropy_gradient(
    hidden: Any,
    weight: Any,
    targets: Any,
    d_out: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Gradients of torch.nn.functional.linear_cross_entropy."""
    more = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": reduction}
    loss = partial(fused, targets=targets, chunked=False, **more)
    return differentiated(loss, d_out, hidden=hidden, weight=weight, bias=bias)


@declared("linear_cross_entropy_gradient")
def torch_linear_cross_entropy_chunked_gradient(
    hidden: Any,
    weight: Any,
    targets: Any,
    d_out: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Gradients of torch.nn.functional.linear_cross_entropy with eight tokens a chunk."""
    more = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": reduction}
    loss = partial(fused, targets=targets, chunked=True, **more)
    return differentiated(loss, d_out, hidden=hidden, weight=weight, bias=bias)
