"""Right, but different: gradients of normalisations as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated

DTYPES = ("float64", "float32", "bfloat16", "float16")
NARROW = ("bfloat16", "float16")
NAIVE = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"}
LAYER = {"eps_place": "inside", "variance": "biased"}
PLAIN = {"eps_place": "inside", "weight_form": "plain"}
BLOCK = 4
"""Rows of which one program sums the gradient of the weight."""


def wider(x: Any) -> Any:
    """`x` in the precision that kernels reckon in: at least single."""
    import torch

    return x.to(torch.promote_types(x.dtype, torch.float32))


def partial_sums(shares: Any) -> Any:
    """The sums of blocks of rows of shares [rows, n], and then the sum of these."""
    return sum(part.sum(0) for part in shares.split(BLOCK))


@adapter("rms_norm_gradient", dtypes=DTYPES, conventions=PLAIN)
def control_root_kept(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """The reciprocal root kept from the forward pass, its third power in the correction, and sums of blocks of rows."""
    n, row, d = x.shape[-1], wider(x), wider(d_out)
    rstd = (row.square().mean(-1, keepdim=True) + eps).rsqrt()
    v = d * wider(weight)
    d_x = rstd * v - rstd**3 / n * (v * row).sum(-1, keepdim=True) * row
    return {"d_x": d_x.to(x.dtype), "d_weight": partial_sums((d * row * rstd).reshape(-1, n)).to(x.dtype)}


@adapter("rms_norm_gradient", dtypes=DTYPES, conventions=PLAIN, grade=NAIVE)
def control_gradient_in_the_dtype(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """Everything in the dtype of the inputs, as the formula stands."""
    root = ((x * x).mean(-1, keepdim=True) + eps).sqrt()
    normed, v = x / root, d_out * weight
    d_x = (v - normed * (v * normed).mean(-1, keepdim=True)) / root
    return {"d_x": d_x, "d_weight": (d_out * normed).reshape(-1, x.shape[-1]).sum(0)}


@adapter("rms_norm_gradient", dtypes=NARROW, conventions=PLAIN)
def control_partial_sums_in_the_dtype(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """Normalised rows stored in the dtype, and the sums of blocks of rows too, before they are added."""
    import torch

    row = wider(x)
    root = (row.square().mean(-1, keepdim=True) + eps).sqrt()
    normed = (row / root).to(x.dtype)
    v = wider(d_out * weight)
    d_x = (v - normed * (v * normed).mean(-1, keepdim=True)) / root
    parts = (wider(d_out) * normed).reshape(-1, x.shape[-1]).split(BLOCK)
    d_weight = wider(torch.stack([part.sum(0).to(x.dtype) for part in parts])).sum(0)
    return {"d_x": d_x.to(x.dtype), "d_weight": d_weight.to(x.dtype)}


@adapter("rms_norm_gradient", dtypes=DTYPES, conventions={"eps_place": "inside", "weight_form": "one_plus"})
def control_one_plus_differentiated(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """Differentiated by torch, one added to the weight in single precision."""

    def normed(x: Any, weight: Any) -> Any:
        row = wider(x)
        return (row * (row.square().mean(-1, keepdim=True) + eps).rsqrt() * (1 + wider(weight))).to(x.dtype)

    return differentiated(normed, d_out, x=x, weight=weight)


@adapter("rms_norm_gradient", dtypes=("float32", *NARROW), conventions=PLAIN)
def control_rms_norm_gradient_float64(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """By the Jacobian in double precision, rounded once."""
    import torch

    n, row, d = x.shape[-1], x.double(), d_out.double()
    root = (row.square().mean(-1, keepdim=True) + eps).sqrt()
    y, v = row / root, d * weight.double()
    if n > 200:  # the Jacobian of a long row is large
        d_x = (v - y * (v * y).mean(-1, keepdim=True)) / root
    else:
        jacobian = (torch.eye(n, dtype=row.dtype) - y[..., :, None] * y[..., None, :] / n) / root[..., None]
        d_x = (jacobian @ v[..., None])[..., 0]
    return {"d_x": d_x.to(x.dtype), "d_weight": (d * y).reshape(-1, n).sum(0).to(x.dtype)}


@adapter("layer_norm_gradient", dtypes=DTYPES, conventions=LAYER)
def control_moments_kept(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """Mean and reciprocal root kept from the forward pass, two means of each row, and sums of blocks of rows."""
    import torch

    n, row, d = x.shape[-1], wider(x), wider(d_out)
    variance, mean = torch.var_mean(row, -1, correction=0, keepdim=True)
    rstd = (variance + eps).rsqrt()
    y, v = (row - mean) * rstd, d * wider(weight)
    d_x = (v - (y * (v * y).mean(-1, keepdim=True) + v.mean(-1, keepdim=True))) * rstd
    sums = (partial_sums(part.reshape(-1, n)).to(x.dtype) for part in (d * y, d))
    return {"d_x": d_x.to(x.dtype), **dict(zip(("d_weight", "d_bias"), sums, strict=True))}


@adapter("layer_norm_gradient", dtypes=DTYPES, conventions=LAYER)
def control_scale_and_shift_of_rows(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """One factor for the cotangent, one for the row and one summand: each row is read but once more."""
    import torch

    n, row, d = x.shape[-1], wider(x), wider(d_out)
    variance, mean = torch.var_mean(row, -1, correction=0, keepdim=True)
    rstd = (variance + eps).rsqrt()
    v = d * wider(weight)
    by_row, by_one = (v * row).sum(-1, keepdim=True), v.sum(-1, keepdim=True)
    slope = (by_one * mean - by_row) * rstd**3 / n
    d_x = rstd * v + slope * row - slope * mean - by_one * rstd / n
    d_weight = (d * (row - mean) * rstd).reshape(-1, n).sum(0)
    return {"d_x": d_x.to(x.dtype), "d_weight": d_weight.to(x.dtype), "d_bias": d.reshape(-1, n).sum(0).to(x.dtype)}


@adapter("layer_norm_gradient", dtypes=DTYPES[:3], conventions=LAYER, grade=NAIVE)
def control_differentiated_in_the_dtype(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """Differentiated by torch, everything in the dtype of the inputs; in float16 what comes back would overflow."""

    def normed(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdim=True)
        return centred / ((centred * centred).mean(-1, keepdim=True) + eps).sqrt() * weight + bias

    return differentiated(normed, d_out, x=x, weight=weight, bias=0 * weight)


@adapter("layer_norm_gradient", dtypes=("float32", *NARROW), conventions={**LAYER, "variance": "unbiased"})
def control_layer_norm_gradient_float64(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
    """With the unbiased variance, in double precision, rounded once."""
    n, d = x.shape[-1], d_out.double()
    centred = x.double() - x.double().mean(-1, keepdim=True)
    root = (centred.square().sum(-1, keepdim=True) / (n - 1) + eps).sqrt()
    y, v = centred / root, d * weight.double()
    d_x = (v - v.mean(-1, keepdim=True) - y * (v * y).sum(-1, keepdim=True) / (n - 1)) / root
    sums = (part.reshape(-1, n).sum(0).to(x.dtype) for part in (d * y, d))
    return {"d_x": d_x.to(x.dtype), **dict(zip(("d_weight", "d_bias"), sums, strict=True))}
