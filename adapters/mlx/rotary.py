"""The rotary embedding of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.rope.html
It counts positions from an offset; neighbouring channels form a pair where it is `traditional`.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .attention import GRADES, to_numpy

DTYPES = ("float32", "bfloat16", "float16")


def offset_of(positions: Any) -> int:
    """The first of positions that follow one another."""
    import numpy as np

    if not np.array_equal(positions, np.arange(len(positions)) + positions[:1]):
        raise Unsupported("positions follow one another")
    return int(positions[0]) if len(positions) else 0


@adapter(
    "rotary",
    requires="all(positions == positions[:1] + range(size(positions)))",
    framework="numpy",
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
    return to_numpy(mx.fast.rope(mx.array(x), dims, traditional=interleaved, base=base, scale=1.0, offset=offset))


@adapter(
    "rotary",
    requires="all(positions == positions[:1] + range(size(positions)))",
    framework="numpy",
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
    turned = mx.fast.rope(mx.array(x), dims, traditional=interleaved, base=None, scale=1.0, offset=offset, freqs=freqs)
    return to_numpy(turned)
