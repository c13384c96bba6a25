"""Computing in double precision as if in a format of less range: what is beyond it is infinite, and what is below zero.

A mistake is evaluated so, for a kernel that has it computes in that format: exponentials without a maximum overflow, or
vanish altogether.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .formats import Format, limited
from .truths import some

_RANGE: ContextVar[Format | None] = ContextVar("range", default=None)


@contextmanager
def ranged(fmt: Format | None) -> Iterator[None]:
    """Have exponentials and sums in the body be in the range of a format, if one is given."""
    outer = _RANGE.set(fmt)
    try:
        yield
    finally:
        _RANGE.reset(outer)


def in_own_range(x: NDArray[Any]) -> NDArray[Any]:
    """An array in the range that is computed in."""
    fmt = _RANGE.get()
    return x if fmt is None else in_range(x, fmt)


def in_range(x: Any, fmt: Format) -> Any:
    """`x` with infinity for what is beyond the largest number of a format, and zero for up to half its least one.

    Anything but an array of fractions is as it was.
    """
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        return x
    below = np.abs(x) <= fmt.tiny
    return limited(np.where(below, np.copysign(0.0, x), x) if some(below) else x, fmt)
