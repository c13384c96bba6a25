"""The package rotary-embedding-torch.

Source: https://github.com/lucidrains/rotary-embedding-torch, rotary_embedding_torch.py.
Pairs are interleaved, angles are reckoned in float32, and the rotation is computed in the wider of that and the dtype
of the inputs.
A module keeps the angles of the positions that it has met; here one module serves all calls of its width and base, as
in a model.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")


@functools.cache
def embedding(width: int, base: float) -> Any:
    """The module for a width and a base."""
    import rotary_embedding_torch

    theta: Any = base  # annotated as an integer there
    return rotary_embedding_torch.RotaryEmbedding(width, theta=theta)


@adapter(
    "rotary",
    dtypes=DTYPES,
    grade={"float64": "fp32"},
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
    package="rotary_embedding_torch",
    extra="rotary",
)
def lucidrains_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """RotaryEmbedding.forward and apply_rotary_emb, for any positions."""
    from rotary_embedding_torch import apply_rotary_emb

    return apply_rotary_emb(embedding(rotary_dim or x.shape[-1], base)(positions), x)


@adapter(
    "rotary",
    requires=("all(positions == positions[:1] + range(size(positions)))", "all(positions >= 0)"),
    dtypes=DTYPES,
    grade={"float64": "fp32"},
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
    package="rotary_embedding_torch",
    extra="rotary",
)
def lucidrains_rotary_offset(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """RotaryEmbedding.rotate_queries_or_keys, for positions that follow on from an offset."""
    import torch

    offset = int(positions[0]) if len(positions) else 0
    if offset < 0 or not torch.equal(positions, torch.arange(offset, offset + len(positions))):
        raise Unsupported("the positions follow on from an offset")
    return embedding(rotary_dim or x.shape[-1], base).rotate_queries_or_keys(x, offset=offset)
