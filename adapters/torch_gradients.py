"""The gradients of PyTorch's normalisations and softmax, by its automatic differentiation.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html,
https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html and
https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
LAYER = {"eps_place": "inside", "variance": "biased"}
ROOT_MEAN_SQUARE = {"eps_place": "inside", "weight_form": "plain"}


def differentiated(function: Callable[..., Any], d_out: Any, **inputs: Any) -> dict[str, Any]:
    """What a cotangent of the function's result is for each of its inputs, by their names with `d_` before.

    Inputs and cotangent keep their memory and its layout: what a backward pass writes over, it writes over here.
    """
    import torch

    with torch.enable_grad():
        leaves = {name: x.detach().requires_grad_() for name, x in inputs.items()}
        gradients = torch.autograd.grad(function(*leaves.values()), list(leaves.values()), d_out)
    # a gradient may be the cotangent itself, which is no fault
    return {f"d_{name}": gradient.clone() for name, gradient in zip(leaves, gradients, strict=True)}


@adapter("rms_norm_gradient", dtypes=DTYPES, conventions=ROOT_MEAN_SQUARE, package="torch")
def torch_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """torch.autograd.grad of torch.nn.functional.rms_norm."""
    import torch

    def rms_norm(x: Any, weight: Any) -> Any:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)

    return differentiated(rms_norm, d_out, x=x, weight=weight)


@adapter("layer_norm_gradient", dtypes=DTYPES, conventions=LAYER, package="torch")
def torch_layer_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """torch.autograd.grad of torch.nn.functional.layer_norm."""
    import torch

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)

    return differentiated(layer_norm, d_out, x=x, weight=weight, bias=torch.zeros_like(weight))


@adapter("softmax_gradient", dtypes=DTYPES, conventions={"empty_row": "nans"}, package="torch")
def torch_softmax_gradient(x: Any, d_out: Any) -> dict[str, Any]:
    """torch.autograd.grad of torch.softmax over the last axis."""
    import torch

    return differentiated(lambda x: torch.softmax(x, -1), d_out, x=x)
