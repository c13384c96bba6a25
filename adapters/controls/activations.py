"""Right, but different: gated activations of one array, as fused kernels compute them."""

from __future__ import annotations

import math
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
NAIVE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}
ROOT = math.sqrt(2 / math.pi)


def parted(x: Any, order: str) -> Any:
    """Gates and their partners, as views: [..., n] each."""
    if not x.shape[-1] or x.shape[-1] % 2:
        raise ValueError("every gate has a partner")
    if order == "interleaved":
        return x[..., ::2], x[..., 1::2]
    first, second = x.chunk(2, -1)
    return (second, first) if order == "up_first" else (first, second)


def limited(gate: Any, up: Any, limit: float | None, limit_opened: bool) -> tuple[Any, Any]:
    """Gates below the limit, unless it is for what they open, and partners between minus the limit and the limit."""
    if limit is None:
        return gate, up
    return gate if limit_opened else gate.clamp(max=limit), up.clamp(-limit, limit)


def share_of(gate: Any, activation: str, alpha: float) -> Any:
    """The share of each gate that is opened: a sigmoid by a tangent, the complement of erf, a tangent by a sigmoid."""
    import torch

    if activation == "silu":
        return 0.5 + 0.5 * torch.tanh(alpha * gate / 2)
    if activation == "gelu":
        return torch.erfc(-gate * math.sqrt(0.5)) / 2
    return torch.sigmoid(2 * ROOT * gate * (1 + 0.044715 * gate * gate))


@adapter("gated_activation", dtypes=DTYPES, grade=NAIVE)
def control_activation_step_by_step(
    x: Any,
    *,
    activation: str = "silu",
    order: str = "gate_first",
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float | None = None,
    limit_opened: bool = False,
) -> Any:
    """Every step stored in the dtype of the inputs, the functions those of torch."""
    import torch

    gate, up = parted(x, order)
    gate, up = limited(gate, up, limit, limit_opened)
    if activation == "silu":
        opened = gate * torch.sigmoid(gate * alpha)
    else:
        opened = torch.nn.functional.gelu(gate, approximate="tanh" if activation == "gelu_tanh" else "none")
    if limit is not None and limit_opened:
        opened = opened.clamp(max=limit)
    return (up + beta) * opened


@adapter("gated_activation", dtypes=DTYPES)
def control_activation_in_single_precision(
    x: Any,
    *,
    activation: str = "silu",
    order: str = "gate_first",
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float | None = None,
    limit_opened: bool = False,
) -> Any:
    """In single precision throughout, a sigmoid by a tangent, a tangent by a sigmoid, and the complement of erf."""
    import torch

    gate, up = (part.float() for part in parted(x, order))
    gate, up = limited(gate, up, limit, limit_opened)
    opened = gate * share_of(gate, activation, alpha)
    if limit is not None and limit_opened:
        opened = opened.clamp(max=limit)
    return torch.addcmul(beta * opened, opened, up).to(x.dtype)
