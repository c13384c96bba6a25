"""Right, but different: gradients of normalisations as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .norms import gate_of

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


@adapter("gated_rms_norm_gradient", dtypes=DTYPES)
def control_gated_norm_differentiated(
    x: Any,
    gate: Any,
    weight: Any,
    d_out: Any,
    *,
    groups: int = 1,
    norm_before_gate: bool = False,
    activation: str = "silu",
    eps: float = 1e-5,
) -> dict[str, Any]:
    """Differentiated by torch, through steps in single precision."""
    import torch

    def gated(x: Any, gate: Any, weight: Any) -> Any:
        opened = gate_of(wider(gate), activation)
        y = (wider(x) if norm_before_gate else wider(x) * opened).unflatten(-1, (groups, -1))
        normed = (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).flatten(-2) * wider(weight)
        return (normed * opened if norm_before_gate else normed).to(x.dtype)

    return differentiated(gated, d_out, x=x, gate=gate, weight=weight)


@adapter("gated_rms_norm_gradient", dtypes=DTYPES)
def control_gated_root_kept(
    x: Any,
    gate: Any,
    weight: Any,
    d_out: Any,
    *,
    groups: int = 1,
    norm_before_gate: bool = False,
    activation: str = "silu",
    eps: float = 1e-5,
) -> dict[str, Any]:
    """The reciprocal root kept from the forward pass, all else computed again, and sums of blocks of tokens."""
    import torch

    z, row, d = wider(gate), wider(x), wider(d_out)
    passed = torch.sigmoid(z)
    opened = z * passed if activation == "silu" else passed
    slope = passed * (1 + z * torch.sigmoid(-z)) if activation == "silu" else passed * torch.sigmoid(-z)
    y = (row if norm_before_gate else row * opened).unflatten(-1, (groups, -1))
    rstd = (y.square().mean(-1, keepdim=True) + eps).rsqrt()
    inner = d * opened if norm_before_gate else d
    v = (inner * wider(weight)).unflatten(-1, (groups, -1))
    d_y = (rstd * v - rstd * (y * rstd) * (v * (y * rstd)).mean(-1, keepdim=True)).flatten(-2)
    normed = (y * rstd).flatten(-2)
    d_gate = d * wider(weight) * normed * slope if norm_before_gate else d_y * row * slope
    return {
        "d_x": (d_y if norm_before_gate else d_y * opened).to(x.dtype),
        "d_gate": d_gate.to(x.dtype),
        "d_weight": partial_sums((inner * normed).reshape(-1, x.shape[-1])).to(x.dtype),
    }


@adapter("gated_rms_norm_gradient", dtypes=("float32", *NARROW))
def control_gated_gradient_float64(
    x: Any,
    gate: Any,
    weight: Any,
    d_out: Any,
    *,
    groups: int = 1,
    norm_before_gate: bool = False,
    activation: str = "silu",
    eps: float = 1e-5,
) -> dict[str, Any]:
    """Group by group in double precision, the slope of SiLU as s + a (1 - s), rounded once."""
    import torch

    def of_group(y: Any, z: Any, w: Any, d: Any) -> tuple[Any, Any, Any]:
        s = torch.sigmoid(z)
        a, slope = (z * s, s + z * s * (1 - s)) if activation == "silu" else (s, s * (1 - s))
        read, v = (y, d * a * w) if norm_before_gate else (y * a, d * w)
        root = (read.square().mean(-1, keepdim=True) + eps).sqrt()
        normed = read / root
        d_read = (v - normed * (v * normed).mean(-1, keepdim=True)) / root
        d_weight = (normed * (d * a if norm_before_gate else d)).flatten(0, -2).sum(0)
        if norm_before_gate:
            return d_read, d * w * normed * slope, d_weight
        return d_read * a, d_read * y * slope, d_weight

    parts = zip(*(a.double().chunk(groups, -1) for a in (x, gate, weight, d_out)), strict=True)
    found = zip(*(of_group(*part) for part in parts), strict=True)
    names = ("d_x", "d_gate", "d_weight")
    return {name: torch.cat(shares, -1).to(x.dtype) for name, shares in zip(names, found, strict=True)}
