"""The positions of the package x-transformers.

Source: https://github.com/lucidrains/x-transformers, x_transformers/x_transformers.py, RotaryEmbedding with
apply_rotary_pos_emb, and ScaledSinusoidalEmbedding.
Rotary pairs are interleaved, angles are reckoned in float32, and the rotation is computed in the wider of that and the
dtype of the inputs.
The factor that the sinusoidal table is learned with is one here.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

declared = functools.partial(adapter, package="x_transformers", extra="x-transformers")


@functools.cache
def embedding(width: int, base: float) -> Any:
    """The module for a width and a base."""
    from x_transformers.x_transformers import RotaryEmbedding

    fraction: Any = base  # annotated as an integer there
    return RotaryEmbedding(width, base=fraction)


@declared(
    "rotary",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    grade={"float64": "fp32"},
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
)
def x_transformers_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """RotaryEmbedding and apply_rotary_pos_emb."""
    from x_transformers.x_transformers import apply_rotary_pos_emb

    return apply_rotary_pos_emb(x, *embedding(rotary_dim or x.shape[-1], base)(positions))


@declared("sinusoidal", conventions={"columns": "sines_first", "spacing": "by_width"})
def x_transformers_sinusoidal(*, length: int, dim: int, base: float = 10000.0, offset: int = 0) -> Any:
    """ScaledSinusoidalEmbedding."""
    import torch
    from x_transformers.x_transformers import ScaledSinusoidalEmbedding

    theta: Any = base  # annotated as an integer there
    module = ScaledSinusoidalEmbedding(dim, theta=theta)
    module.scale.data.fill_(1.0)
    return module(torch.zeros(1, length, dim), offset=offset)


@declared("rotary_frequencies", fixed={"kind": "linear", "rotary_dim": None})
def x_transformers_rotary_frequencies(
    *, dim: int, kind: str = "linear", base: float = 10000.0, factor: float = 4.0
) -> Any:
    """The angles of RotaryEmbedding at position one, with an interpolation factor."""
    import torch
    from x_transformers.x_transformers import RotaryEmbedding

    whole: Any = base  # annotated as a whole number there
    embedding = RotaryEmbedding(dim, interpolation_factor=factor, base=whole)
    angles, scaling = embedding(torch.ones(1))
    return {"frequencies": angles[0, 0, ::2], "scaling": scaling}
