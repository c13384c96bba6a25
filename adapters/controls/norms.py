"""Right, but different: normalisations that compute as kernels do, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
LAYER = {"eps_place": "inside", "variance": "biased"}
PLAIN = {"eps_place": "inside", "weight_form": "plain"}


@adapter("layer_norm", dtypes=DTYPES, conventions=LAYER)
def control_merged_moments(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Means and squares of blocks of 16 channels, merged as Chan, Golub and LeVeque do."""
    import torch

    count, mean = 0, torch.zeros(*x.shape[:-1], 1)
    squares = torch.zeros(*x.shape[:-1], 1)
    for part in x.float().split(16, -1):
        own, size = part.mean(-1, keepdim=True), part.shape[-1]
        gap, total = own - mean, count + size
        squares = squares + ((part - own) ** 2).sum(-1, keepdim=True) + gap**2 * (count * size / total)
        mean, count = mean + gap * (size / total), total
    y = (x.float() - mean) * torch.rsqrt(squares / count + eps)
    return (y * weight.float() + bias.float()).to(x.dtype)


@adapter("layer_norm", dtypes=DTYPES, conventions=LAYER)
def control_channel_by_channel(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Welford's recurrence, one channel after the other."""
    import torch

    mean, squares = torch.zeros(x.shape[:-1]), torch.zeros(x.shape[:-1])
    for index, entry in enumerate(x.float().unbind(-1)[:600], 1):
        gap = entry - mean
        mean = mean + gap / index
        squares = squares + gap * (entry - mean)
    if x.shape[-1] > 600:  # the recurrence is slow in Python
        squares, mean = torch.var_mean(x.float(), -1, correction=0)
        squares = squares * x.shape[-1]
    root = torch.sqrt(squares / x.shape[-1] + eps)[..., None]
    return ((x.float() - mean[..., None]) / root * weight.float() + bias.float()).to(x.dtype)


@adapter("layer_norm", dtypes=DTYPES, conventions=LAYER)
def control_scale_and_shift(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """The mean taken off after the division, and one factor and one summand a row."""
    import torch

    variance, mean = torch.var_mean(x.float(), -1, correction=0, keepdim=True)
    factor = torch.rsqrt(variance + eps)
    return ((x.float() * factor - mean * factor) * weight.float() + bias.float()).to(x.dtype)


@adapter("layer_norm", dtypes=DTYPES, conventions=LAYER)
def control_narrow_weighting(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Normalised in single precision, weighted in the dtype of the inputs."""
    import torch

    variance, mean = torch.var_mean(x.float(), -1, correction=0, keepdim=True)
    y = ((x.float() - mean) / torch.sqrt(variance + eps)).to(x.dtype)
    return y * weight + bias


@adapter("layer_norm", dtypes=DTYPES, conventions=LAYER)
def control_layer_norm_float64(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Everything in double precision, rounded once."""
    y = x.double() - x.double().mean(-1, keepdim=True)
    y = y / (y.square().mean(-1, keepdim=True) + eps).sqrt()
    return (y * weight.double() + bias.double()).to(x.dtype)


@adapter("rms_norm", dtypes=DTYPES, conventions=PLAIN)
def control_backward_blocks(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """Squares summed over blocks of 16 channels, the last block first."""
    import torch

    parts = reversed(x.float().square().split(16, -1))
    total = sum((part.sum(-1, keepdim=True) for part in parts), torch.zeros(*x.shape[:-1], 1))
    return (x.float() * torch.rsqrt(total / x.shape[-1] + eps) * weight.float()).to(x.dtype)


@adapter("rms_norm", dtypes=DTYPES, conventions=PLAIN)
def control_by_largest(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """Divided by the largest entry first, so that no square is out of range."""
    top = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-12)
    y = x.float() / top
    root = (y.square().mean(-1, keepdim=True) + eps / top / top).sqrt()
    return (y / root * weight.float()).to(x.dtype)


@adapter("rms_norm", dtypes=DTYPES, conventions=PLAIN)
def control_length(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """By the length of the row and the root of the number of channels."""
    import torch

    n = x.shape[-1]
    length = torch.linalg.vector_norm(x.float(), dim=-1, keepdim=True)
    return (x.float() * (n**0.5 / (length.square() + n * eps).sqrt()) * weight.float()).to(x.dtype)


@adapter("rms_norm", dtypes=DTYPES, conventions=PLAIN)
def control_narrow_weight(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """Normalised in single precision, weighted in the dtype of the inputs."""
    import torch

    y = x.float()
    return weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


@adapter("rms_norm", dtypes=DTYPES, conventions={"eps_place": "inside", "weight_form": "one_plus"})
def control_one_plus(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """One added to the weight in single precision."""
    import torch

    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)
    return (y + y * weight.float()).to(x.dtype)


@adapter("rms_norm", dtypes=DTYPES, conventions=PLAIN)
def control_rms_norm_float64(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """Everything in double precision, rounded once."""
    y = x.double()
    return (y / (y.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()).to(x.dtype)


def lazy_package() -> Any:
    """A package that is imported when it is first needed, and does what packages do then."""
    import os
    import random
    import sys
    import warnings
    from types import ModuleType

    name = "lazily_imported_by_a_control"
    if name not in sys.modules:
        sys.modules[name] = ModuleType(name)
        warnings.filterwarnings("ignore", module=name)
        os.environ.setdefault(name.upper(), str(random.random()))
    return sys.modules[name]


@adapter("softmax", dtypes=DTYPES, conventions={"empty_row": "nans"})
def control_settings_set_back(x: Any) -> Any:
    """What is computed under other settings, which are set back, after a lazy import that leaves traces of its own."""
    import numpy as np
    import torch

    lazy_package()
    kept, generator = torch.get_default_dtype(), torch.Generator().manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        with np.errstate(all="raise"), torch.random.fork_rng(devices=[]), torch.enable_grad():
            order = torch.randperm(x.shape[-1], generator=generator)
            torch.rand(1)
            y = torch.empty(x.shape)
            y[..., order] = torch.softmax(x.double()[..., order], -1)
    finally:
        torch.set_default_dtype(kept)
    return y.detach().to(x.dtype)


@adapter("log_softmax", dtypes=DTYPES)
def control_logsumexp_subtracted(x: Any) -> Any:
    """The logarithm of the sum as a whole, in single precision."""
    import torch

    y = x.float()
    if not y.shape[-1]:
        raise ValueError("a row has entries")
    return (y - torch.logsumexp(y, -1, keepdim=True)).to(x.dtype)


@adapter("log_softmax", dtypes=DTYPES)
def control_maximum_of_sorted_entries(x: Any) -> Any:
    """Entries in order, the largest subtracted, in double precision."""
    import torch

    y = x.double()
    ranked = y.sort(-1).values
    top = ranked[..., -1:]
    return (y - top - torch.log(torch.exp(ranked - top).sum(-1, keepdim=True))).to(x.dtype)


@adapter("residual_rms_norm", dtypes=DTYPES, conventions=PLAIN)
def control_stream_in_place(x: Any, residual: Any, weight: Any, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """The sum is stored first, and the norm reads what was stored; a bias is added to what is added."""
    import torch

    stream = ((x if bias is None else x + bias).float() + residual.float()).to(x.dtype)
    y = stream.float()
    out = (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight
    return out, stream


@adapter("residual_rms_norm", dtypes=DTYPES, conventions=PLAIN | {"weight_form": "one_plus"})
def control_sum_in_registers(x: Any, residual: Any, weight: Any, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """The norm reads the sum as it was before it is rounded, in double precision."""
    y = x.double() + residual.double() + (0 if bias is None else bias.double())
    normed = y / (y.square().mean(-1, keepdim=True) + eps).sqrt()
    return {"summed": y.to(x.dtype), "out": (normed * (1 + weight.double())).to(x.dtype)}


@adapter("residual_layer_norm", dtypes=DTYPES, conventions={"eps_place": "inside"})
def control_stream_normalised_by_torch(x: Any, residual: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """The sum is stored first, and normalised by the layer norm of torch."""
    import torch

    stream = x + residual
    return torch.nn.functional.layer_norm(stream, weight.shape, weight, bias, eps), stream


@adapter("residual_layer_norm", dtypes=DTYPES, conventions={"eps_place": "inside"})
def control_moments_of_a_sum(x: Any, residual: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """The norm reads the sum as it was before it is rounded, in double precision."""
    y = x.double() + residual.double()
    centred = y - y.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    out = normed * weight.double() + bias.double()
    return {"summed": y.to(x.dtype), "out": out.to(x.dtype)}


def gate_of(gate: Any, activation: str) -> Any:
    """What a gate lets through, in its own dtype."""
    import torch

    return torch.nn.functional.silu(gate) if activation == "silu" else torch.sigmoid(gate)


@adapter("gated_rms_norm", dtypes=DTYPES)
def control_groups_as_an_axis(
    x: Any,
    gate: Any,
    weight: Any,
    *,
    groups: int = 1,
    norm_before_gate: bool = False,
    activation: str = "silu",
    eps: float = 1e-5,
) -> Any:
    """In single precision, groups an axis of their own, the normalised row stored before it is weighted."""
    import torch

    opened = gate_of(gate.float(), activation)
    y = x.float() if norm_before_gate else x.float() * opened
    parted = y.unflatten(-1, (groups, -1))
    normed = (parted * torch.rsqrt(parted.square().mean(-1, keepdim=True) + eps)).flatten(-2).to(x.dtype)
    weighted = weight * normed
    return (weighted * opened).to(x.dtype) if norm_before_gate else weighted


@adapter("gated_rms_norm", dtypes=DTYPES)
def control_group_by_group(
    x: Any,
    gate: Any,
    weight: Any,
    *,
    groups: int = 1,
    norm_before_gate: bool = False,
    activation: str = "silu",
    eps: float = 1e-5,
) -> Any:
    """One group after the other, its squares summed in blocks of 16 channels, rounded once at the end."""
    import torch

    parts = []
    for y, z, w in zip(*(a.float().chunk(groups, -1) for a in (x, gate, weight)), strict=True):
        opened = 0.5 * (1 + torch.tanh(0.5 * z)) if activation == "sigmoid" else z * torch.sigmoid(z)
        read = y if norm_before_gate else y * opened
        total = sum(block.square().sum(-1, keepdim=True) for block in read.split(16, -1))
        normed = read * torch.rsqrt(total / y.shape[-1] + eps) * w
        parts.append(normed * opened if norm_before_gate else normed)
    return torch.cat(parts, -1).to(x.dtype)


@adapter("gated_rms_norm", dtypes=DTYPES)
def control_gate_in_the_weight(
    x: Any,
    gate: Any,
    weight: Any,
    *,
    groups: int = 1,
    norm_before_gate: bool = False,
    activation: str = "silu",
    eps: float = 1e-5,
) -> Any:
    """In double precision; after the norm, weight and gate are one factor."""
    opened = gate_of(gate.double(), activation)
    y = (x.double() if norm_before_gate else x.double() * opened).unflatten(-1, (groups, -1))
    factor = weight.double() * opened if norm_before_gate else weight.double()
    return ((y / (y.square().mean(-1, keepdim=True) + eps).sqrt()).flatten(-2) * factor).to(x.dtype)


@adapter("gated_rms_norm", dtypes=DTYPES)
def control_steps_of_a_model(
    x: Any,
    gate: Any,
    weight: Any,
    *,
    groups: int = 1,
    norm_before_gate: bool = False,
    activation: str = "silu",
    eps: float = 1e-5,
) -> Any:
    """Every step stored in the dtype of the inputs, the norm of torch for each group."""
    import torch

    opened = gate_of(gate, activation)
    y = (x if norm_before_gate else x * opened).unflatten(-1, (groups, -1))
    normed = torch.nn.functional.rms_norm(y, y.shape[-1:], eps=eps).flatten(-2) * weight
    return normed * opened if norm_before_gate else normed
