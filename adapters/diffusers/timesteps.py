"""The embeddings of timesteps of diffusers.

Documentation: https://huggingface.co/docs/diffusers; source: diffusers/models/embeddings.py (get_timestep_embedding,
Timesteps).
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.layers import new_layer

declared = functools.partial(adapter, "timestep_embedding", dtypes=("float32",), package="diffusers", extra="diffusers")


@declared()
def diffusers_timestep_embedding(
    timesteps: Any,
    *,
    dim: int,
    cosines_first: bool = False,
    downscale: int = 0,
    scale: float = 1.0,
    base: float = 10000.0,
) -> Any:
    """get_timestep_embedding of diffusers."""
    from diffusers.models.embeddings import get_timestep_embedding

    period: Any = base
    return get_timestep_embedding(timesteps, dim, cosines_first, downscale, scale, period)


@declared(fixed={"base": 10000.0})
def diffusers_timesteps(
    timesteps: Any, *, dim: int, cosines_first: bool = False, downscale: int = 0, scale: float = 1.0
) -> Any:
    """Timesteps of diffusers, a module without weights."""
    from diffusers.models.embeddings import Timesteps

    return new_layer(Timesteps, dim, cosines_first, downscale, scale)(timesteps)
