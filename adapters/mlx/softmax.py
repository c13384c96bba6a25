"""The softmax of MLX, in the dtype of its inputs and more precisely.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.softmax.html
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import GRADES

DTYPES = ("float32", "bfloat16", "float16")


@adapter(
    "softmax",
    framework="mlx",
    dtypes=DTYPES,
    conventions={"empty_row": "nans"},
    grade=GRADES,
    package="mlx.core",
    extra="mlx",
)
def mlx_softmax(x: Any) -> Any:
    """mlx.core.softmax over the last axis."""
    import mlx.core as mx

    return mx.softmax(x, axis=-1)


@adapter(
    "softmax",
    framework="mlx",
    dtypes=DTYPES,
    conventions={"empty_row": "nans"},
    package="mlx.core",
    extra="mlx",
)
def mlx_softmax_precise(x: Any) -> Any:
    """mlx.core.softmax over the last axis with `precise`, in single precision."""
    import mlx.core as mx

    return mx.softmax(x, axis=-1, precise=True)
