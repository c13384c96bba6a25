"""The rotary embedding of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.rope.html
It counts positions from an offset; neighbouring channels form a pair where it is `traditional`.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .attention import GRADES

DTYPES = ("float32", "bfloat16", "float16")


def offset_of(positions: Any) -> int:
    """The first of positions that follow one another."""
    found = positions.tolist()
    first = found[0] if found else 0
    if found != [*range(first, first + len(found))]:
        raise Unsupported("positions follow one another")
    return first


@adapter(
    "rotary",
    requires="all(positions == positions[:1] + range(size(positions)))",
    framework="mlx",
    dtypes=DTYPES,
    grade=GRADES,
    package="mlx.core",
    extra="mlx",
)
def mlx_rotary(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """mlx.core.fast.rope."""
    import mlx.core as mx

    dims, offset = rotary_dim or x.shape[-1], offset_of(positions)
    return mx.fast.rope(x, dims, traditional=interleaved, base=base, scale=1.0, offset=offset)


@adapter(
    "rotary",
    requires="all(positions == positions[:1] + range(size(positions)))",
    framework="mlx",
    dtypes=DTYPES,
    grade=GRADES,
    package="mlx.core",
    extra="mlx",
)
def mlx_rotary_frequencies(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """mlx.core.fast.rope with `freqs`, which are the reciprocals of frequencies."""
    import mlx.core as mx
    import numpy as np

    dims, offset = rotary_dim or x.shape[-1], offset_of(positions)
    freqs = mx.array((float(base) ** (np.arange(0, dims, 2) / dims)).astype(np.float32))
    return mx.fast.rope(x, dims, traditional=interleaved, base=None, scale=1.0, offset=offset, freqs=freqs)


@adapter(
    "rotary_pair",
    requires="all(positions == positions[:, :1] + range(size(positions)))",
    framework="mlx",
    dtypes=DTYPES,
    grade=GRADES,
    package="mlx.core",
    extra="mlx",
)
def mlx_rotary_pair(
    q: Any,
    k: Any,
    positions: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> Any:
    """mlx.core.fast.rope with an offset for each item of the batch."""
    import mlx.core as mx

    dims, offset = rotary_dim or q.shape[-1], positions[:, 0].astype(mx.int32)
    found = (mx.fast.rope(x, dims, traditional=interleaved, base=base, scale=1.0, offset=offset) for x in (q, k))
    return dict(zip(("q_out", "k_out"), found, strict=True))
