"""The parts of an error: arrays of which most are absent, and how they add up."""

from __future__ import annotations

from typing import Any

import numpy as np

from .truths import every

K = 6.0
"""Standard deviations in a statistical bound; the most that correct implementations were seen to need is 2.4."""


MANY = 1 << 16
"""Entries from which on an array of booleans is dear."""


Array = Any
"""A float64 array, or the float 0.0 for an error that is absent."""


def absent(part: Array) -> bool:
    """Whether an error is nowhere: represented by the float 0.0, so that nothing is computed for it."""
    return type(part) is float


def finite(x: Array) -> Array:
    """`x` with zeros for what is infinite or not a number: such a value has no rounding error."""
    if all_finite(x):
        return x
    return np.where(np.isfinite(x), x, 0.0)


def all_finite(x: Array) -> bool:
    """Whether all entries are finite; of many, their sum says so in one pass, unless it is not finite itself."""
    if np.size(x) > MANY and np.isfinite(np.add.reduce(x, axis=None)):
        return True
    return every(np.isfinite(x))


def added(x: Array, y: Array) -> Array:
    """The sum of two errors, of which most are absent."""
    return y if type(x) is float and not x else x if type(y) is float and not y else x + y
