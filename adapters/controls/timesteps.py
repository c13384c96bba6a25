"""Right, but different: embeddings of timesteps as models compute them, and that no law may accuse."""

from __future__ import annotations

import math
from typing import Any

from .. import adapter

DTYPES = ("float32",)


def checked(dim: int, downscale: int) -> int:
    """How many frequencies there are."""
    if dim < 2 or dim // 2 <= downscale:
        raise ValueError("there are too few frequencies")
    return dim // 2


@adapter("timestep_embedding", dtypes=DTYPES)
def control_logarithms_of_frequencies(
    timesteps: Any,
    *,
    dim: int,
    cosines_first: bool = False,
    downscale: int = 0,
    scale: float = 1.0,
    base: float = 10000.0,
) -> Any:
    """Exponentials of evenly spaced logarithms, in single precision."""
    import torch

    half = checked(dim, downscale)
    frequencies = torch.exp(-math.log(base) * torch.arange(half, dtype=torch.float32) / (half - downscale))
    angle = scale * (timesteps[:, None] * frequencies)
    first, second = (angle.cos(), angle.sin()) if cosines_first else (angle.sin(), angle.cos())
    return torch.nn.functional.pad(torch.cat([first, second], -1), (0, dim % 2))


@adapter("timestep_embedding", dtypes=DTYPES)
def control_powers_of_the_base(
    timesteps: Any,
    *,
    dim: int,
    cosines_first: bool = False,
    downscale: int = 0,
    scale: float = 1.0,
    base: float = 10000.0,
) -> Any:
    """Divisors that are powers of the base, in double precision, written in place."""
    import torch

    half = checked(dim, downscale)
    divisors = base ** (torch.arange(half).double() / (half - downscale))
    out = torch.zeros(len(timesteps), dim)
    angle = timesteps.double()[:, None] * scale / divisors
    out[:, half : 2 * half] = angle.sin() if cosines_first else angle.cos()
    out[:, :half] = angle.cos() if cosines_first else angle.sin()
    return out


@adapter("timestep_embedding", dtypes=DTYPES)
def control_as_complex_numbers(
    timesteps: Any, *, dim: int, cosines_first: bool = False, downscale: int = 0, base: float = 10000.0
) -> Any:
    """Real and imaginary parts of numbers of length one."""
    import torch

    half = checked(dim, downscale)
    angle = torch.outer(timesteps.double(), base ** -(torch.arange(half).double() / (half - downscale)))
    turned = torch.polar(torch.ones_like(angle), angle)
    parts = (turned.real, turned.imag) if cosines_first else (turned.imag, turned.real)
    return torch.cat([*parts, torch.zeros(len(timesteps), dim % 2)], -1).float()
