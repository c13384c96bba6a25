"""What the definition or a candidate gives of a call: values and bounds, and whether others are near them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..judging.frames import displaced
from ..numerics.grades import FP64, Grade
from ..numerics.numbers import Number
from ..numerics.parts import finite
from ..numerics.truths import every

ROUGHLY = 0.05
"""The share of the largest entry by which a candidate may be off before its bounds are derived."""


class Version:
    """What the definition or a candidate gives: values, and bounds, which are derived when they are needed."""

    def __init__(self, values: Mapping[str, Any], radius: Callable[[str], Any]) -> None:
        self.values, self._derive = values, radius
        self._radii: dict[str, Any] = {}

    def radius(self, name: str) -> Any:
        """What rounding may do to an output; infinite where nothing is claimed of it."""
        if name not in self._radii:
            self._radii[name] = self._derive(name)
        return self._radii[name]


def bound_of(y: Any, x: Any, grade: Grade) -> Any:
    """The radius of an output under a grade, and how far a choice in doubt has moved it from the exact one."""
    if not isinstance(y, Number):
        return 0.0
    known = np.isfinite(y.value) | ~np.isfinite(y.radius)
    return np.where(known, (2.0 if grade is FP64 else 1.0) * y.radius + displaced(y, x), 0.0)


def close(x: Any, y: Any, radius: Any) -> bool:
    """Whether all entries are near."""
    return every(near_entries(x, y, radius))


def near_entries(x: Any, y: Any, radius: Any) -> Any:
    """Which entries are the same, or as near as a radius, which where it is infinite claims nothing."""
    with np.errstate(all="ignore"):
        near = (x == y) | (np.abs(x - y) <= radius) | (radius == np.inf)
        return near | (np.isnan(x) & np.isnan(y))


def roughly(x: Any, y: Any) -> bool:
    """Whether entries are alike but for some percent of the largest; what is not a number is like anything."""
    if np.shape(x) != np.shape(y):
        return False
    x, y = np.asarray(x, float), np.asarray(y, float)
    with np.errstate(all="ignore"):
        size = np.max(np.abs(finite(y)), initial=0.0)
        return bool(np.all((x == y) | (np.abs(x - y) <= ROUGHLY * size) | np.isnan(x)))
