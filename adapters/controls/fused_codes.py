"""Right, but different: codes of what the same step has computed, in ways none of which any law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .quantization import DTYPES, LARGEST, coded


def power_above(scale: Any) -> Any:
    """The least power of two that is no smaller than each scale."""
    import torch

    fraction, exponent = torch.frexp(scale)
    return torch.ldexp(torch.ones_like(scale), exponent - (fraction == 0.5).int())


def largest(groups: Any) -> Any:
    """The largest size of each group [rows, groups, channels]."""
    return groups.abs().amax(2)


def scales_of(sizes: Any, top: float, least: float, power_of_two: bool) -> Any:
    """The scales of the largest sizes of groups, one for what is all zeros."""
    import torch

    scale = (sizes / top).clamp_min(least)
    scale = torch.where(scale > 0, scale, 1.0)
    return power_above(scale) if power_of_two else scale


@adapter("normed_blocks", dtypes=DTYPES)
def control_norm_and_codes_at_once(
    x: Any,
    weight: Any,
    residual: Any = None,
    static_scale: Any = None,
    *,
    code_dtype: str = "int8",
    group_size: int | None = None,
    power_of_two: bool = False,
    eps: float = 1e-5,
    least_scale: float = 0.0,
) -> Any:
    """Everything in single precision, products with reciprocals, and nothing rounded before it becomes a code."""
    import torch

    r = x.float() if residual is None else x.float() + residual.float()
    y = r * torch.rsqrt((r * r).mean(1, keepdim=True) + eps) * weight.float()
    summed = {} if residual is None else {"summed": r.to(x.dtype)}
    if static_scale is not None:
        return {"codes": coded(y * (1 / static_scale), code_dtype), **summed}
    groups = y.reshape(len(x), -1, group_size or x.shape[1])
    scale = scales_of(largest(groups), LARGEST[code_dtype], least_scale, power_of_two)
    ratio = (groups * (1 / scale)[..., None]).reshape(x.shape)
    return {"codes": coded(ratio, code_dtype), "scale": scale, **summed}


@adapter("normed_blocks", dtypes=DTYPES)
def control_norm_and_codes_in_two_steps(
    x: Any,
    weight: Any,
    residual: Any = None,
    static_scale: Any = None,
    *,
    code_dtype: str = "int8",
    group_size: int | None = None,
    power_of_two: bool = False,
    eps: float = 1e-5,
    least_scale: float = 0.0,
) -> Any:
    """Sums, normalised rows and weighted ones are stored, and codes are made of them in double precision."""
    summed = x if residual is None else (x.double() + residual.double()).to(x.dtype)
    r = summed.double()
    normed = (r / ((r * r).sum(1, keepdim=True) / x.shape[1] + eps).sqrt()).to(x.dtype)
    y = (normed.double() * weight.double()).to(x.dtype)
    further = {} if residual is None else {"summed": summed}
    if static_scale is not None:
        return {"codes": coded(y.double() / static_scale.double(), code_dtype), **further}
    groups = y.double().reshape(len(x), -1, group_size or x.shape[1])
    scale = scales_of(largest(groups), LARGEST[code_dtype], least_scale, power_of_two).float()
    ratio = (groups / scale.double()[..., None]).reshape(x.shape)
    return {"codes": coded(ratio, code_dtype), "scale": scale, **further}


@adapter("activated_blocks", dtypes=DTYPES)
def control_activation_and_codes_at_once(
    x: Any,
    static_scale: Any = None,
    *,
    code_dtype: str = "int8",
    group_size: int | None = None,
    power_of_two: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float | None = None,
    least_scale: float = 0.0,
) -> Any:
    """Everything in single precision, products with reciprocals, and nothing rounded before it becomes a code."""
    import torch

    gate, up = x.float().chunk(2, 1)
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    y = gate * torch.sigmoid(alpha * gate) * (up + beta)
    if static_scale is not None:
        return {"codes": coded(y * (1 / static_scale), code_dtype)}
    groups = y.reshape(len(x), -1, group_size or y.shape[1])
    scale = scales_of(largest(groups), LARGEST[code_dtype], least_scale, power_of_two)
    return {"codes": coded((groups * (1 / scale)[..., None]).reshape(y.shape), code_dtype), "scale": scale}


@adapter("activated_blocks", dtypes=DTYPES)
def control_activation_and_codes_in_two_steps(
    x: Any,
    static_scale: Any = None,
    *,
    code_dtype: str = "int8",
    group_size: int | None = None,
    power_of_two: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float | None = None,
    least_scale: float = 0.0,
) -> Any:
    """The function of the gates and the products are stored, and codes are made of them in double precision."""
    import torch

    gate, up = x.double().chunk(2, 1)
    if limit is not None:
        gate, up = torch.minimum(gate, torch.tensor(limit)), up.clamp(-limit, limit)
    passed = (gate / (1 + torch.exp(-alpha * gate))).to(x.dtype).double()
    y = (passed * (up + beta)).to(x.dtype).double()
    if static_scale is not None:
        return {"codes": coded(y / static_scale.double(), code_dtype)}
    groups = y.reshape(len(x), -1, group_size or y.shape[1])
    scale = scales_of(largest(groups), LARGEST[code_dtype], least_scale, power_of_two).float()
    return {"codes": coded((groups / scale.double()[..., None]).reshape(y.shape), code_dtype), "scale": scale}
