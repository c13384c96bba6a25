"""Arrays with given strides: their memory, which holds NaN outside the entries, and a view of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ..frameworks.framework import Framework


def spread_out(x: NDArray[np.float32], strides: tuple[int, ...]) -> NDArray[np.float32]:
    """The memory of an array with these strides, in entries, from its first entry to its last; [extent]."""
    extent = 1 + sum((n - 1) * step for n, step in zip(x.shape, strides, strict=True)) if x.size else 0
    memory = np.full(extent, np.nan, np.float32)
    if x.size:
        as_strided(memory, x.shape, [memory.itemsize * step for step in strides])[...] = x
    return memory


def seen_as(framework: Framework, memory: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Memory of NumPy or torch as an array of this shape and these strides."""
    if framework.name == "numpy":
        return as_strided(memory, shape, [memory.itemsize * step for step in strides])
    return memory.as_strided(shape, strides)
