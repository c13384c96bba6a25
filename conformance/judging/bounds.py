"""How far an output may be from the definition: the rounding at a precision, and the rounding of the result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.codes import CODES
from ..numerics.formats import FORMATS, KINDS, half_unit
from ..numerics.grades import Grade, result_format
from ..numerics.numbers import Number
from ..numerics.parts import finite
from .frames import Frames
from .settling import Settled

FAR = 1 / 16
"""The bound of an entry that is far from the definition, as a share of the largest entry."""


class Stray(Exception):  # noqa: N818 - an answer
    """An output is NaN where the definition has a number."""


class Bounds:
    """The bounds of what was returned for the calls of a sample."""

    def __init__(self, frames: Frames) -> None:
        self.frames, self.mechanism, self.dtype = frames, frames.mechanism, frames.bench.dtype
        self.widened = False
        """Whether a bound was made wide, because an output is far from the definition."""

    def number(self, y: NDArray[Any], name: str, settled: Settled, grade: Grade | None, worst: bool, fair: bool) -> Any:
        """An output with its bound; `Stray` where it is none."""
        dtype = self.mechanism.dtype_of(name, self.dtype)
        if dtype == "boolean" and y.dtype.kind != "b":
            return _truth(y, name)
        if y.dtype.kind != "f" or dtype in KINDS or dtype in CODES:
            return self._whole(y, name, settled, grade, worst)
        radius = self._radius(y, name, settled, grade, worst, fair)
        self._check_numbers(y, radius, name, settled)
        return Number.within(y, radius)

    def _whole(self, y: NDArray[Any], name: str, settled: Settled, grade: Grade | None, worst: bool) -> Any:
        """Integers, booleans or codes: exact, but for what the definition itself leaves in doubt."""
        if y.dtype.kind in "iu":
            y = y.astype(np.int64)  # laws compute with integers, and not in the type that holds them
        if y.dtype.kind == "b" or grade is None or name in self.mechanism.random:
            return y
        _, likely, certain = self.frames.bound(name, settled, grade)
        radius = certain if worst else likely
        if y.dtype.kind == "f":
            self._check_numbers(y, np.broadcast_to(radius, y.shape), name, settled)
        return Number.within(y.astype(np.float64), radius) if np.any(radius) else y

    def _check_numbers(self, y: NDArray[np.float64], radius: Any, name: str, settled: Settled) -> None:
        """NaN is nothing that a law may meet by accident: it is `Stray` where the definition has a number."""
        lost = np.isnan(y) & np.isfinite(radius)
        if not lost.any() or name in self.mechanism.random:
            return
        if not np.isnan(self.frames.exact(name, settled))[lost].all():
            raise Stray(f"{name} is NaN where the definition has a number")

    def _radius(
        self, y: NDArray[np.float64], name: str, settled: Settled, grade: Grade | None, worst: bool, fair: bool
    ) -> Any:
        dtype = self.mechanism.dtype_of(name, self.dtype)
        own = np.abs(finite(y))
        result = FORMATS[dtype] if grade is None else result_format(dtype, grade)
        if name in self.mechanism.random:
            return np.where(own > 0, half_unit(own, result), 0.0)  # what was dropped was not rounded
        if grade is None:
            return half_unit(own, result)
        x, likely, certain = self.frames.bound(name, settled, grade)
        radius = certain if worst else likely
        reach = np.maximum(np.abs(finite(x)) + finite(radius), own)
        radius = radius + half_unit(reach, result)
        if fair:
            far = ~(np.abs(y - x) <= radius) & np.isfinite(y)
            if far.any():
                self.widened = True
                radius = np.where(far, np.maximum(radius, FAR * own.max(initial=0.0)), radius)
        return radius


def _truth(y: NDArray[Any], name: str) -> NDArray[np.bool_]:
    """Booleans that are returned as zeros and ones, which the contract of dtypes tells; `Stray` for other numbers."""
    if not np.isin(y, (0, 1)).all():
        raise Stray(f"{name} has numbers other than 0 and 1 where the definition has booleans")
    return y == 1
