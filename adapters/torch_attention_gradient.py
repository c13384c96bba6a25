"""The gradients of PyTorch's scaled dot-product attention, by automatic differentiation.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
What is differentiated are the calls of `torch_attention`: a mask and a bias together are put into one bias, whose
gradient reaches the bias where the mask leaves it.
The documentation asks for no more than that inputs require gradients, all of them or some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import adapter
from .torch_attention import CONVENTIONS, DTYPES, attention, attention_by


def differentiated(attend: Callable[..., Any], d_out: Any, **inputs: Any) -> dict[str, Any]:
    """The gradients of an attention function of torch, by the names of its inputs; those that are none have none."""
    import torch

    with torch.enable_grad():
        leaves = {name: x.detach().requires_grad_() for name, x in inputs.items() if x is not None}
        out = attend(**inputs | leaves)
        found = torch.autograd.grad(out, list(leaves.values()), d_out)
    return {f"d_{name}": x for name, x in zip(leaves, found, strict=True)}


def differentiated_apart(attend: Callable[..., Any], d_out: Any, **inputs: Any) -> dict[str, Any]:
    """The same, but for each gradient a call of its own, in which nothing else requires one."""
    found: dict[str, Any] = {}
    for name in (name for name, x in inputs.items() if x is not None):

        def of_one(name: str = name, **one: Any) -> Any:
            return attend(**inputs | one)

        found |= differentiated(of_one, d_out, **{name: inputs[name]})
    return found


@adapter("attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS, package="torch")
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

    def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return attention(q, k, v, causal, mask, bias, scale)

    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@adapter("attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS, package="torch")
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

    def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return attention(q, k, v, causal, mask, bias, scale)

    return differentiated_apart(attend, d_out, q=q, k=k, v=v, bias=bias)


@adapter("attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS, package="torch")
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

    def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return attention_by("MATH", q, k, v, causal, mask, bias, scale)

    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@adapter("attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS, package="torch")
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

    def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return attention_by("FLASH_ATTENTION", q, k, v, causal, mask, bias, scale)

    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)
