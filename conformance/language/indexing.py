"""The contents of brackets: integers, slices and arrays, and the entries that they select."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import SpecError
from ..numerics.budget import charge
from ..numerics.numbers import value
from ..numerics.truths import Truth


def charge_picked(shape: tuple[int, ...], index: Any) -> None:
    """Account for what arrays in an index pick; slices and integers make nothing new."""
    parts = index if isinstance(index, tuple) else (index,)
    picks = [np.count_nonzero(p) if p.dtype == bool else p.shape for p in parts if isinstance(p, np.ndarray)]
    if not picks:
        return
    ones: list[Any] = []  # every axis that an array picks from, cut to a single entry
    for p in parts:
        axes = p.ndim if isinstance(p, np.ndarray) and p.dtype == bool else 1
        ones += [slice(0, 1)] * axes if isinstance(p, np.ndarray) else [p]
    rest = np.broadcast_to(np.zeros(()), shape)[tuple(ones)]
    charge(rest.size * math.prod(np.broadcast_shapes(*picks)))


def end_of(x: Any) -> int | None:
    """One end of a slice."""
    if x is None:
        return None
    x = value(x)
    if np.ndim(x) or isinstance(x, str | Truth) or float(x) != int(x):
        raise SpecError(f"{x!r} is not an integer")
    return int(x)


def index_of(x: Any) -> Any:
    """One part of an index: an integer, `none`, an ellipsis, or an array of integers or plain booleans."""
    if x is None or x is Ellipsis or (isinstance(x, int) and not isinstance(x, bool)):
        return x
    if isinstance(x, str | Truth):
        raise SpecError("an index is an integer, a slice, none, or an array of integers or booleans")
    plain = np.asarray(value(x))
    charge(plain.size)
    if plain.dtype == bool:
        return plain
    whole = plain.astype(np.int64)
    if not np.array_equal(whole, plain):
        raise SpecError("an index is not an integer")
    return whole if whole.ndim else int(whole)
