"""Right, but different: normalised queries and keys with rotary positions, as fused kernels compute them."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .positions import DTYPES, NAIVE, axes_of, by_exponentials, checked, control_mrope_by_axis, halves, joined


@adapter("qk_norm_rotary", dtypes=DTYPES)
def control_heads_beside_each_other(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    eps: float = 1e-5,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> dict[str, Any]:
    """All heads at once in single precision, with a weight for each of them, and nothing stored in between."""
    import torch

    x = torch.cat((q, k), 1).float()
    width, groups = checked(x, positions[0], rotary_dim), (q.shape[1], k.shape[1])
    weights = torch.cat([w.float().expand(n, -1) for w, n in zip((q_weight, k_weight), groups, strict=True)])
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weights[:, None]
    first, second = halves(x, width, interleaved)
    angle = positions.float()[:, None, :, None] * by_exponentials(base, width)
    c, s = angle.cos(), angle.sin()
    out = joined(first * c - second * s, second * c + first * s, x[..., width:], interleaved).to(q.dtype)
    return {"q_out": out[:, : q.shape[1]].clone(), "k_out": out[:, q.shape[1] :].clone()}


@adapter("qk_norm_rotary", dtypes=DTYPES, grade=NAIVE)
def control_steps_in_the_dtype(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    eps: float = 1e-5,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> dict[str, Any]:
    """Norm, weight, products and sums each stored in the dtype of the inputs; statistics and angles are not."""
    import torch

    found = {}
    for name, x, weight in (("q_out", q, q_weight), ("k_out", k, k_weight)):
        width = checked(x, positions[0], rotary_dim)
        if weight.shape != x.shape[-1:] or q.shape[-1] != k.shape[-1]:
            raise ValueError("weights, queries and keys have as many channels")
        wide = x.float()
        y = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight
        angle = positions.float()[:, None, :, None] * by_exponentials(base, width)
        c, s = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = halves(y, width, interleaved)
        found[name] = joined(first * c - second * s, second * c + first * s, y[..., width:], interleaved)
    return found


@adapter("qk_norm_rotary", dtypes=DTYPES)
def control_turned_by_weighted_pairs(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    eps: float = 1e-5,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> dict[str, Any]:
    """In double precision, the weight in the rotation, and the root last: one factor for each head of a token."""
    import torch

    found = {}
    for name, x, weight in (("q_out", q, q_weight), ("k_out", k, k_weight)):
        width, wide = checked(x, positions[0], rotary_dim), x.double()
        if q.shape[-1] != k.shape[-1]:
            raise ValueError("keys have as many channels as queries")
        frequency = by_exponentials(base, width).double()
        angle = (positions.float()[:, None, :, None] * frequency.float()).double()
        first, second = halves(wide * weight.double(), width, interleaved)
        turned = first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()
        whole = joined(*turned, (wide * weight.double())[..., width:], interleaved)
        found[name] = (whole * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)
    return found


def of_one_dim(q: Any, k: Any, q_weight: Any, k_weight: Any) -> None:
    if not q_weight.shape == k_weight.shape == q.shape[-1:] == k.shape[-1:]:
        raise ValueError("weights, queries and keys have as many channels")


@adapter("qk_norm_mrope", dtypes=DTYPES, conventions={"weight_form": "plain"})
def control_norm_and_axes(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    sections: Any,
    striped: bool = False,
    eps: float = 1e-5,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> dict[str, Any]:
    """Normalised in single precision and turned with the sines and cosines of every axis."""
    import torch

    of_one_dim(q, k, q_weight, k_weight)
    turning = {"sections": sections, "base": base, "interleaved": interleaved, "striped": striped}
    found = {}
    for name, x, weight in (("q_out", q, q_weight), ("k_out", k, k_weight)):
        width, wide = rotary_dim or x.shape[-1], x.float()
        y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
        turned = control_mrope_by_axis(y[..., :width], positions, **turning)
        found[name] = torch.cat((turned, y[..., width:]), -1).to(x.dtype)
    return found


@adapter("qk_norm_mrope", dtypes=DTYPES, conventions={"weight_form": "one_plus"})
def control_axes_under_the_root(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    sections: Any,
    striped: bool = False,
    eps: float = 1e-5,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> dict[str, Any]:
    """In double precision as complex numbers, the axis of each pair first, and the root last."""
    import torch

    of_one_dim(q, k, q_weight, k_weight)
    width = rotary_dim or q.shape[-1]
    if 2 * int(sum(sections)) != width or len(sections) != len(positions):
        raise ValueError("every pair has an axis, and every token a position on each")
    angle = positions[axes_of(sections, width, striped)].permute(1, 2, 0).float() * by_exponentials(base, width)
    turn = torch.polar(torch.ones_like(angle, dtype=torch.float64), angle.double())[:, None]
    found = {}
    for name, x, weight in (("q_out", q, q_weight), ("k_out", k, k_weight)):
        y = x.double() * (1 + weight.double())
        first, second = halves(y, width, interleaved)
        turned = torch.complex(first.contiguous(), second.contiguous()) * turn
        whole = joined(turned.real, turned.imag, y[..., width:], interleaved)
        found[name] = (whole * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + eps)).to(x.dtype)
    return found
