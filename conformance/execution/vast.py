"""Arrays in far more memory than they fill, most of it never touched: long strides, and large pools.

Memory is asked for without being reserved, and comes to be when it is written. What a call takes beside it is bounded,
so that one which copies a whole pool is told that there is no room, and no process is killed.
"""

from __future__ import annotations

import math
import mmap
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..frameworks.framework import Framework
from ..numerics.drawn import Drawn

NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
"""Have the memory of a mapping come to be when it is touched, whatever is said to overcommit."""
ALLOCATING = ("allocat", "out of memory", "MemoryError")
"""What is said where there is no room."""


class NoRoomError(Exception):
    """There is not as much memory, or not of this kind."""


def is_vast(x: Drawn) -> bool:
    return bool(x.apart or x.pool)


def vast(framework: Framework, x: Drawn, dtype: str, index: int) -> Any:
    """The array in its memory, in the main memory of the machine; `NoRoomError` where that is not to be had."""
    made = framework.make(x.whole(), dtype, "cpu", "contiguous", index)
    return _laid(framework, made, x.handed_axis, x.places, x.pool) if x.pool else spread(framework, made, x.apart)


def spread(framework: Framework, made: Any, apart: int) -> Any:
    """An array of the framework with so many entries of memory between both ends of its first axis of several places.

    `NoRoomError` where that memory is not to be had.
    """
    shape = [int(n) for n in made.shape]
    axis = next((at for at, n in enumerate(shape) if n > 1), 0)
    gap = -(-apart // (math.prod(shape[axis + 1 :]) * max(shape[axis] - 1, 1)))
    whole = _laid(framework, made, axis, np.arange(shape[axis]) * gap, (shape[axis] - 1) * gap + 1)
    return whole[(*(slice(None),) * axis, slice(None, None, max(gap, 1)))]


def _laid(framework: Framework, made: Any, axis: int, places: NDArray[np.int64], length: int) -> Any:
    """An array whose axis is so long, of which some places alone are filled: with those of what was made."""
    shape = [int(n) for n in made.shape]
    whole = _mapped(framework, made, [*shape[:axis], length, *shape[axis + 1 :]])
    ahead = (slice(None),) * axis
    for at, place in enumerate(places.tolist()):
        whole[(*ahead, place)] = made[(*ahead, at)]
    return whole


def _mapped(framework: Framework, like: Any, shape: list[int]) -> Any:
    """Zeros of the dtype of an array, none of which is there yet."""
    if not NORESERVE:
        raise NoRoomError("memory comes to be at once on this system")
    width = like.itemsize if framework.name == "numpy" else like.element_size()
    try:
        memory = mmap.mmap(-1, math.prod(shape) * width, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    except (OSError, ValueError, OverflowError) as error:
        raise NoRoomError(f"{math.prod(shape) * width / 1e9:.1f} GB cannot be mapped: {error}") from None
    if framework.name == "numpy":
        return np.frombuffer(memory, like.dtype).reshape(shape)
    torch = sys.modules["torch"]
    return torch.frombuffer(memory, dtype=like.dtype).reshape(shape)


@contextmanager
def bounded(room: int) -> Iterator[None]:
    """Have what is allocated in the body beside what there is be no more than so many bytes, where that can be said."""
    pages = Path("/proc/self/statm")
    if not pages.is_file():
        yield
        return
    limit, most = resource.getrlimit(resource.RLIMIT_AS)
    own = int(pages.read_text().split()[0]) * mmap.PAGESIZE + room
    least = min((n for n in (own, limit, most) if n != resource.RLIM_INFINITY), default=own)
    resource.setrlimit(resource.RLIMIT_AS, (least, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def out_of_room(says: str) -> bool:
    """Whether a call was ended because there was no more memory."""
    return any(word in says for word in ALLOCATING)
