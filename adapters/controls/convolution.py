"""Right, but different: short convolutions as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.packed import convolvable

DTYPES = ("float32", "bfloat16", "float16")


def extended(x: Any, weight: Any, state: Any) -> Any:
    """The inputs behind those of the state, in single precision."""
    import torch

    if len(weight) != x.shape[1]:
        raise ValueError("every channel has weights")
    before = torch.zeros(*x.shape[:2], weight.shape[1] - 1) if state is None else state.float()
    return torch.cat((before, x.float()), 2)


@adapter("short_convolution", dtypes=DTYPES)
def control_convolution_by_shifts(
    x: Any, weight: Any, bias: Any = None, state: Any = None, *, silu: bool = False
) -> Any:
    """A sum of shifted copies, the latest first."""
    import torch

    whole, width, length = extended(x, weight, state), weight.shape[1], x.shape[2]
    out = torch.zeros(x.shape) if bias is None else bias.float()[:, None].expand(x.shape).clone()
    for i in reversed(range(width)):
        out += weight.float()[:, i, None] * whole[..., i : i + length]
    out = out / (1 + (-out).exp()) if silu else out
    return {"out": out.to(x.dtype), "final_state": whole[..., length:].to(x.dtype)}


@adapter("short_convolution", dtypes=DTYPES)
def control_convolution_by_matrix(
    x: Any, weight: Any, bias: Any = None, state: Any = None, *, silu: bool = False
) -> Any:
    """A product with a banded matrix for each channel."""
    import torch

    whole, width, length = extended(x, weight, state), weight.shape[1], x.shape[2]
    band = torch.zeros(len(weight), length + width - 1, length)
    for t in range(length):
        band[:, t : t + width, t] = weight.float()
    out = torch.einsum("bct,cts->bcs", whole, band)
    out = out if bias is None else out + bias.float()[:, None]
    out = torch.nn.functional.silu(out) if silu else out
    return {"out": out.to(x.dtype), "final_state": whole[..., length:].to(x.dtype)}


@adapter("packed_convolution", dtypes=DTYPES)
def control_convolution_item_by_item(
    x: Any, weight: Any, lens: Any, bias: Any = None, state: Any = None, *, silu: bool = False
) -> Any:
    """Each item by itself, by a product with a banded matrix."""
    import torch

    convolvable(x, weight, lens, state)
    left = torch.zeros(len(lens), x.shape[1], weight.shape[1] - 1, dtype=x.dtype) if state is None else state.clone()
    out = torch.empty_like(x)
    for item, own in enumerate(torch.arange(len(x)).split(lens.tolist())):
        found = control_convolution_by_matrix(x[own].T[None], weight, bias, left[item : item + 1], silu=silu)
        out[own], left[item] = found["out"][0].T, found["final_state"][0]
    return {"out": out, "final_state": left}


@adapter("packed_convolution", dtypes=DTYPES)
def control_convolution_between_states(
    x: Any, weight: Any, lens: Any, bias: Any = None, state: Any = None, *, silu: bool = False
) -> Any:
    """One convolution along a pack in which each item lies behind its state."""
    import torch

    convolvable(x, weight, lens, state)
    width = weight.shape[1]
    state = torch.zeros(len(lens), x.shape[1], width - 1) if state is None else state
    pieces = zip(state, x.split(lens.tolist()), strict=True)
    whole = torch.cat([part for held, own in pieces for part in (held.float(), own.T.float())], 1)
    ends = (lens + width - 1).cumsum(0).tolist()
    item = torch.arange(len(lens)).repeat_interleave(lens)
    at = torch.arange(len(x)) + item * (width - 1)
    out = torch.nn.functional.conv1d(whole[None], weight.float()[:, None], groups=len(weight))[0].T[at]
    out = out if bias is None else out + bias.float()
    out = torch.nn.functional.silu(out) if silu else out
    left = torch.stack([whole[:, end - width + 1 : end] for end in ends])
    return {"out": out.to(x.dtype), "final_state": left.to(x.dtype)}
