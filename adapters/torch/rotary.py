"""Cosines and sines of rotary positions, as kernels in Triton read them."""

from __future__ import annotations

from typing import Any


def table(positions: Any, width: int, base: float) -> Any:
    """The cosines up to the last of the positions and behind them the sines, in float32: [last + 1, width]."""
    import torch

    frequency = base ** (-torch.arange(0, width, 2, device=positions.device).float() / width)
    angle = torch.arange(int(positions.max()) + 1, device=positions.device)[:, None] * frequency
    return torch.cat((angle.cos(), angle.sin()), 1)
