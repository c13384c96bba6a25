"""The gradients of PyTorch's normalisations and softmax, by its automatic differentiation.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html,
https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html and
https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import adapter
from .norms import DTYPES, LAYER, ROOT_MEAN_SQUARE
from .softmax import torch_masked_softmax


def differentiated(
    function: Callable[..., Any], d_out: Any, *, further: Mapping[str, Any] | None = None, **inputs: Any
) -> dict[str, Any]:
    """What a cotangent of the function's result is for each of its inputs, by their names with `d_` before.

    Of outputs by name, `out` is differentiated, and those that `further` has a cotangent of.
    An input that is None has no gradient.
    Inputs and cotangent keep their memory and its layout: what a backward pass writes over, it writes over here.
    """
    import torch

    with torch.enable_grad():
        leaves = {name: x.detach().requires_grad_() for name, x in inputs.items() if x is not None}
        found = function(**inputs | leaves)
        out = found["out"] if isinstance(found, dict) else found
        asked = {name: x for name, x in (further or {}).items() if x is not None}
        outs, cotangents = [out, *(found[name] for name in asked)], [d_out, *asked.values()]
        gradients = torch.autograd.grad(outs, list(leaves.values()), cotangents)
    return {f"d_{name}": _apart(x, d_out) for name, x in zip(leaves, gradients, strict=True)}


def _apart(gradient: Any, d_out: Any) -> Any:
    """A gradient, copied where it is the cotangent itself, which is no fault."""
    return gradient.clone() if gradient.data_ptr() == d_out.data_ptr() else gradient


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


@adapter("residual_rms_norm_gradient", dtypes=DTYPES, conventions=ROOT_MEAN_SQUARE, package="torch")
def torch_residual_rms_norm_gradient(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
) -> dict[str, Any]:
    """torch.autograd.grad of a sum and its torch.nn.functional.rms_norm."""
    import torch

    def fused(x: Any, residual: Any, weight: Any) -> dict[str, Any]:
        summed = x + residual
        return {"out": torch.nn.functional.rms_norm(summed, weight.shape, weight, eps), "summed": summed}

    return differentiated(fused, d_out, further={"summed": d_summed}, x=x, residual=residual, weight=weight)


@adapter("residual_layer_norm_gradient", dtypes=DTYPES, conventions={"eps_place": "inside"}, package="torch")
def torch_residual_layer_norm_gradient(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
) -> dict[str, Any]:
    """torch.autograd.grad of a sum and its torch.nn.functional.layer_norm."""
    import torch

    def fused(x: Any, residual: Any, weight: Any, bias: Any) -> dict[str, Any]:
        summed = x + residual
        return {"out": torch.nn.functional.layer_norm(summed, weight.shape, weight, bias, eps), "summed": summed}

    inputs = {"x": x, "residual": residual, "weight": weight, "bias": torch.zeros_like(weight)}
    return differentiated(fused, d_out, further={"summed": d_summed}, **inputs)


@adapter(
    "group_norm_gradient",
    dtypes=DTYPES,
    conventions={"grouping": "block"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="torch",
)
def torch_group_norm_gradient(x: Any, weight: Any, d_out: Any, *, groups: int, eps: float = 1e-5) -> dict[str, Any]:
    """torch.autograd.grad of torch.nn.functional.group_norm."""
    import torch

    def group_norm(x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.group_norm(x, groups, weight, bias, eps)

    return differentiated(group_norm, d_out, x=x, weight=weight, bias=torch.zeros_like(weight))


@adapter("softmax_gradient", dtypes=DTYPES, conventions={"empty_row": "nans"}, package="torch")
def torch_softmax_gradient(x: Any, d_out: Any) -> dict[str, Any]:
    """torch.autograd.grad of torch.softmax over the last axis."""
    import torch

    return differentiated(lambda x: torch.softmax(x, -1), d_out, x=x)


@adapter(
    "masked_softmax_gradient",
    dtypes=DTYPES,
    conventions={"empty_row": "zeros", "causal_alignment": "bottom_right"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    fixed={"max_bias": 0.0},
    package="torch",
)
def torch_masked_softmax_gradient(
    x: Any, d_out: Any, *, mask: Any = None, bias: Any = None, scale: float = 1.0, causal: bool = False
) -> dict[str, Any]:
    """torch.autograd.grad of torch.softmax of scaled scores, of which torch.Tensor.masked_fill hides some."""

    def masked_softmax(x: Any) -> Any:
        return torch_masked_softmax(x, mask=mask, bias=bias, scale=scale, causal=causal)

    return differentiated(masked_softmax, d_out, x=x)


@adapter(
    "log_softmax_gradient",
    dtypes=DTYPES,
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    package="torch",
)
def torch_log_softmax_gradient(x: Any, d_out: Any) -> dict[str, Any]:
    """torch.autograd.grad of torch.log_softmax over the last axis."""
    import torch

    if not x.shape[-1]:
        raise ValueError("a row has entries")
    return differentiated(lambda x: torch.log_softmax(x, -1), d_out, x=x)
