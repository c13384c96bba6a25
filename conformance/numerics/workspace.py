"""Reused memory for large single-precision arrays, free again when nothing refers to it.

What is computed a stretch at a time would ask the system for fresh memory at every step, which costs more than most of
the steps do: each page of it is cleared, and is in no cache.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""The numbers of two settings of glibc's `mallopt`, by its header `malloc.h`."""
_MAPPED, _TRIMMED, _NEVER = 1 << 16, 1 << 17, (1 << 31) - 1
"""How many blocks are mapped by themselves, and how many free bytes are given back, where nothing else is said."""


@contextlib.contextmanager
def memory_kept() -> Iterator[None]:
    """Keep what arrays leave for those that follow, and give it back to the system at the end.

    Otherwise glibc maps each large array anew, and the system clears all of its pages. Without glibc nothing changes.
    """
    allocator = _allocator()
    if allocator is None:
        yield
        return
    allocator.mallopt(_MMAP_MAX, 0)
    allocator.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        allocator.mallopt(_MMAP_MAX, _MAPPED)
        allocator.mallopt(_TRIM_THRESHOLD, _TRIMMED)
        allocator.malloc_trim(0)


def _allocator() -> Any:
    """The library of the process, if its memory is that of glibc."""
    if not sys.platform.startswith("linux"):
        return None
    with contextlib.suppress(OSError):
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt") and hasattr(library, "malloc_trim"):
            return library
    return None


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
