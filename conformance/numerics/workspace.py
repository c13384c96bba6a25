"""Reused memory for large single-precision arrays, free again when nothing refers to it.

What is computed a stretch at a time would ask the system for fresh memory at every step, which costs more than most of
the steps do: each page of it is cleared, and is in no cache.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Workspace:
    """Flat arrays, of which views are handed out; one is free once no view of it is left."""

    def __init__(self) -> None:
        self._flat: list[NDArray[np.float32]] = []
        self._alone = _references([np.empty(0, np.float32)], 0)
        """What is counted of an array that nothing but its list refers to."""

    def empty(self, shape: Sequence[int]) -> NDArray[np.float32]:
        """An array of that shape whose entries are anything, in memory that no other array has."""
        size = math.prod(shape)
        free = [at for at in range(len(self._flat)) if _references(self._flat, at) == self._alone]
        for at in free:
            if self._flat[at].size >= size:
                return self._flat[at][:size].reshape(shape)
        if free:  # one that is too small makes room
            del self._flat[free[0]]
        self._flat.append(np.empty(size, np.float32))
        return self._flat[-1][:].reshape(shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all of its memory."""
        return sum(flat.nbytes for flat in self._flat)


def _references(arrays: Sequence[NDArray[np.float32]], at: int) -> int:
    """How many references there are to an array of a list; every view of it is one, for it is their `base`."""
    return sys.getrefcount(arrays[at])
