"""Right, but different: short convolutions as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

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
