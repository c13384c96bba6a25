"""Cosines and sines of rotary positions, as kernels in Triton read them."""

from __future__ import annotations

from typing import Any


def table(base: float, width: int, positions: int) -> Any:
    """The cosines of all positions and behind them the sines, in float32: [positions, width]."""
    import torch

    frequency = base ** (-torch.arange(0, width, 2).float() / width)
    angle = torch.arange(positions)[:, None] * frequency
    return torch.cat((angle.cos(), angle.sin()), 1)
