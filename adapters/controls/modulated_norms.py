"""Right, but different: normalisation with scale and shift of its item, in ways none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import DTYPES


def fitting(x: Any, scales: Any, shifts: Any) -> None:
    """Refuse scales and shifts of other items, frames or channels."""
    if scales.shape != shifts.shape or scales.shape[::2] != x.shape[::2] or x.shape[1] % scales.shape[1]:
        raise ValueError("a scale and a shift for every channel of a frame")


@adapter("modulated_norm", dtypes=DTYPES)
def control_modulated_norm_by_frames(
    x: Any,
    scales: Any,
    shifts: Any,
    weight: Any = None,
    bias: Any = None,
    residual: Any = None,
    gate: Any = None,
    *,
    rms: bool = False,
    eps: float = 1e-6,
) -> Any:
    """Tokens in frames, in double precision, and one factor and one summand for each row."""
    import torch

    fitting(x, scales, shifts)
    wide = x.double().unflatten(1, (scales.shape[1], -1))
    if residual is not None:
        stream = residual.double().unflatten(1, wide.shape[1:3])
        wide = stream + (wide if gate is None else wide * gate.double()[:, :, None])
    variance, mean = torch.var_mean(wide, -1, correction=0, keepdim=True)
    rstd = ((wide.square().mean(-1, keepdim=True) if rms else variance) + eps).rsqrt()
    y = wide * rstd if rms else wide * rstd - mean * rstd
    y = y if weight is None else y * weight.double()
    y = y if bias is None else y + bias.double()
    y = torch.addcmul(shifts.double()[:, :, None], y, 1 + scales.double()[:, :, None])
    return {"out": y.flatten(1, 2).to(x.dtype), "summed": wide.flatten(1, 2).to(x.dtype).clone()}


@adapter("modulated_norm", dtypes=DTYPES)
def control_modulated_norm_narrow(
    x: Any,
    scales: Any,
    shifts: Any,
    weight: Any = None,
    bias: Any = None,
    residual: Any = None,
    gate: Any = None,
    *,
    rms: bool = False,
    eps: float = 1e-6,
) -> Any:
    """Step by step as a module does it, each stored in the dtype; the norm is in single precision."""
    fitting(x, scales, shifts)
    tokens = x.shape[1] // scales.shape[1]
    factor, summand = (one.repeat_interleave(tokens, 1) for one in (scales, shifts))
    gates = 1 if gate is None else gate.repeat_interleave(tokens, 1)
    stream = x if residual is None else residual + gates * x
    wide = stream.float()
    centred = wide if rms else wide - wide.mean(-1, keepdim=True)
    y = (centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return {"out": y * (1 + factor) + summand, "summed": stream.clone()}
