"""The rotary embedding of the package x-transformers.

Source: https://github.com/lucidrains/x-transformers, x_transformers/x_transformers.py, RotaryEmbedding and
apply_rotary_pos_emb.
Pairs are interleaved, angles are reckoned in float32, and the rotation is computed in the wider of that and the dtype
of the inputs.
"""

from __future__ import annotations

import functools
from typing import Any

from . import adapter


@functools.cache
def embedding(width: int, base: float) -> Any:
    """The module for a width and a base."""
    from x_transformers.x_transformers import RotaryEmbedding

    return RotaryEmbedding(width, base=base)


@adapter(
    "rotary",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    grade={"float64": "fp32"},
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """RotaryEmbedding and apply_rotary_pos_emb."""
    from x_transformers.x_transformers import apply_rotary_pos_emb

    return apply_rotary_pos_emb(x, *embedding(rotary_dim or x.shape[-1], base)(positions))
