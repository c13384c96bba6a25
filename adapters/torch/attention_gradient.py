"""The gradients of PyTorch's scaled dot-product attention, by automatic differentiation.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
What is differentiated are the calls of `torch_attention`: a mask and a bias together are put into one bias, whose
gradient reaches the bias where the mask leaves it.
The documentation asks for no more than that inputs require gradients, all of them or some.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import adapter
from .attention import CONVENTIONS, CUDNN, DTYPES, EFFICIENT, FLASH_ON_CUDA, attention, attention_by
from .gradients import differentiated

declared = functools.partial(adapter, dtypes=DTYPES, conventions=CONVENTIONS, package="torch")


def differentiated_apart(attend: Callable[..., Any], d_out: Any, **inputs: Any) -> dict[str, Any]:
    """The gradients of a function, for each of them a call of its own, in which nothing else requires one."""
    found: dict[str, Any] = {}
    for name, x in inputs.items():
        if x is not None:
            others = {other: y for other, y in inputs.items() if other != name}
            found |= differentiated(partial(attend, **others), d_out, **{name: x})
    return found


@declared("attention_gradient")
def torch_sdpa_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of torch.nn.functional.scaled_dot_product_attention, with the kernel that torch chooses."""
    attend = partial(attention, causal=causal, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@declared("attention_gradient")
def torch_sdpa_gradient_apart(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of torch.nn.functional.scaled_dot_product_attention, each asked for by itself."""
    attend = partial(attention, causal=causal, mask=mask, scale=scale)
    return differentiated_apart(attend, d_out, q=q, k=k, v=v, bias=bias)


@declared("attention_gradient")
def torch_sdpa_math_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of scaled_dot_product_attention, composed of elementary operations (MATH)."""
    attend = partial(attention_by, "MATH", causal=causal, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@declared("attention_gradient", on={"cuda": FLASH_ON_CUDA})
def torch_sdpa_flash_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of scaled_dot_product_attention, by its fused kernel (FLASH_ATTENTION)."""
    attend = partial(attention_by, "FLASH_ATTENTION", causal=causal, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@declared(
    "attention_gradient",
    grade={"float16": "fp16_naive"},  # weights are rounded before they are multiplied with their gradients
    devices=("cuda",),
    on={"cuda": EFFICIENT},
)
def torch_sdpa_efficient_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of scaled_dot_product_attention, by its kernel of less memory (EFFICIENT_ATTENTION)."""
    attend = partial(attention_by, "EFFICIENT_ATTENTION", causal=causal, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@declared("attention_gradient", devices=("cuda",), on={"cuda": CUDNN})
def torch_sdpa_cudnn_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of scaled_dot_product_attention, by cuDNN (CUDNN_ATTENTION)."""
    attend = partial(attention_by, "CUDNN_ATTENTION", causal=causal, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)
