"""Right, but different: gradients of a residual sum and its norm as kernels compute them; no law may accuse them."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .norm_gradients import DTYPES, NAIVE, NARROW, PLAIN, partial_sums, wider

INSIDE = {"eps_place": "inside"}


def used_again(d_row: Any, d_summed: Any) -> Any:
    """What comes back through the norm, and the cotangent of the sum, where it has one."""
    return d_row if d_summed is None else d_row + wider(d_summed)


@adapter("residual_rms_norm_gradient", dtypes=DTYPES, conventions=PLAIN)
def control_one_gradient_for_both(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
) -> dict[str, Any]:
    """From the sum that was stored, and one array as the gradient of both."""
    n, row, d = x.shape[-1], wider((wider(x) + wider(residual)).to(x.dtype)), wider(d_out)
    rstd = (row.square().mean(-1, keepdim=True) + eps).rsqrt()
    v = d * wider(weight)
    d_row = rstd * v - rstd**3 / n * (v * row).sum(-1, keepdim=True) * row
    d_x = used_again(d_row, d_summed).to(x.dtype)
    d_weight = partial_sums((d * row * rstd).reshape(-1, n)).to(x.dtype)
    return {"d_x": d_x, "d_residual": d_x, "d_weight": d_weight}


@adapter("residual_rms_norm_gradient", dtypes=DTYPES, conventions=PLAIN, grade=NAIVE)
def control_residual_gradient_in_the_dtype(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
) -> dict[str, Any]:
    """Everything in the dtype of the inputs, as the formula stands, and the cotangent of the sum first."""
    summed = x + residual
    root = ((summed * summed).mean(-1, keepdim=True) + eps).sqrt()
    normed, v = summed / root, d_out * weight
    d_row = (v - normed * (v * normed).mean(-1, keepdim=True)) / root
    d_x = d_row if d_summed is None else d_summed + d_row
    return {"d_x": d_x, "d_residual": d_x.clone(), "d_weight": (d_out * normed).reshape(-1, x.shape[-1]).sum(0)}


@adapter("residual_rms_norm_gradient", dtypes=DTYPES, conventions={**PLAIN, "weight_form": "one_plus"})
def control_fused_sum_differentiated(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
) -> dict[str, Any]:
    """Differentiated by torch, the norm of the sum as it was before it was rounded."""

    def fused(x: Any, residual: Any, weight: Any) -> dict[str, Any]:
        row = wider(x) + wider(residual)
        normed = row * (row.square().mean(-1, keepdim=True) + eps).rsqrt() * (1 + wider(weight))
        return {"out": normed.to(x.dtype), "summed": row.to(x.dtype)}

    return differentiated(fused, d_out, further={"summed": d_summed}, x=x, residual=residual, weight=weight)


@adapter("residual_rms_norm_gradient", dtypes=("float32", *NARROW), conventions={**PLAIN, "eps_place": "outside"})
def control_residual_rms_norm_gradient_float64(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
) -> dict[str, Any]:
    """With epsilon added to the root, in double precision, rounded once."""
    row, d = x.double() + residual.double(), d_out.double()
    size = row.square().mean(-1, keepdim=True).sqrt()
    y, v = row / (size + eps), d * weight.double()
    d_row = (v - y * (v * row).mean(-1, keepdim=True) / size) / (size + eps)
    d_x = used_again(d_row, d_summed).to(x.dtype)
    d_weight = (d * y).reshape(-1, x.shape[-1]).sum(0).to(x.dtype)
    return {"d_x": d_x, "d_residual": d_x, "d_weight": d_weight}


@adapter("residual_layer_norm_gradient", dtypes=DTYPES, conventions=INSIDE)
def control_moments_of_the_sum_kept(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
) -> dict[str, Any]:
    """Mean and reciprocal root of the sum that was stored, and one array as the gradient of both."""
    import torch

    n, row, d = x.shape[-1], wider((wider(x) + wider(residual)).to(x.dtype)), wider(d_out)
    variance, mean = torch.var_mean(row, -1, correction=0, keepdim=True)
    rstd = (variance + eps).rsqrt()
    y, v = (row - mean) * rstd, d * wider(weight)
    d_row = (v - (y * (v * y).mean(-1, keepdim=True) + v.mean(-1, keepdim=True))) * rstd
    d_x = used_again(d_row, d_summed).to(x.dtype)
    d_weight, d_bias = (partial_sums(part.reshape(-1, n)).to(x.dtype) for part in (d * y, d))
    return {"d_x": d_x, "d_residual": d_x, "d_weight": d_weight, "d_bias": d_bias}


@adapter("residual_layer_norm_gradient", dtypes=("float32", *NARROW), conventions=INSIDE)
def control_residual_layer_norm_gradient_float64(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float = 1e-5
) -> dict[str, Any]:
    """Differentiated by torch in double precision, the norm of the sum as it was before it was rounded."""

    def fused(x: Any, residual: Any, weight: Any, bias: Any) -> dict[str, Any]:
        row = x.double() + residual.double()
        centred = row - row.mean(-1, keepdim=True)
        normed = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double() + bias.double()
        return {"out": normed.to(x.dtype), "summed": row.to(x.dtype)}

    inputs = {"x": x, "residual": residual, "weight": weight, "bias": 0 * weight}
    return differentiated(fused, d_out, further={"summed": d_summed}, **inputs)
