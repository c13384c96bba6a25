"""Exact verdicts on rows of a large case: their errors in units of their bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.formats import half_unit
from ..numerics.grades import FP64, Grade, result_format
from ..numerics.numbers import Number
from ..numerics.parts import K, finite
from ..numerics.products import quickly
from ..subjects.large import LargeSubject
from .judge import WorstEntry
from .portions import Item, Portions


@dataclass(slots=True)
class Verdict:
    """What came of rows that were judged."""

    excess: float = 0.0
    """The largest error in units of its bound."""
    worst: WorstEntry | None = None
    """The entry that has it."""
    rows: int = 0
    wrong: int = 0
    """Rows with an entry beyond its bound."""
    entries: int = 0
    spoiled: int = 0
    """Entries beyond their bounds."""
    widest: float = 0.0
    """The widest bound of an entry."""


def exactly(
    portions: Portions,
    subject: LargeSubject,
    items: Sequence[Item],
    chosen: Mapping[int, Sequence[int]],
    names: Sequence[str],
    grade: Grade,
) -> Verdict:
    """The verdict on rows of items, which `chosen` has by the number of the item."""
    found = Verdict()
    several = sum(math.prod(shape) for name, shape in portions.shapes.items() if name in names)
    for number, numbers in chosen.items():
        item, rows = items[number], np.asarray(numbers)
        bad = np.zeros(len(rows), bool)
        with quickly():  # copies are views, of which much is found once
            exact = portions.outputs(portions.frame(item, rows, None), names)
            bounded = portions.outputs(portions.frame(item, rows, grade), names)
        for name in names:
            y = portions.observed(subject, item, rows, name)
            x = np.broadcast_to(np.asarray(exact[name], float), y.shape)
            radius = _radius(portions, y, x, bounded[name], name, grade, several)
            units = _units(y, x, radius)
            bad |= portions.by_row(units, name, len(rows)) > 1
            found.entries += units.size
            found.spoiled += int((units > 1).sum())
            found.widest = max(found.widest, float(np.max(finite(radius), initial=0.0)))
            if units.max(initial=0.0) > found.excess:
                found.excess = float(units.max())
                at = np.unravel_index(int(units.argmax()), units.shape)
                places = portions.places(item, rows, name)
                where = tuple(int(each[i]) for each, i in zip(places, at, strict=True))
                values = float(y[at]), float(x[at]), float(radius[at])
                found.worst = WorstEntry(*values, found.excess, where, 0, 0, output=name)
        found.rows += len(rows)
        found.wrong += int(bad.sum())
    return found


def _radius(
    portions: Portions, y: NDArray[np.float64], exact: Any, bounded: Any, name: str, grade: Grade, several: int
) -> NDArray[np.float64]:
    """The bound of each entry, as one of so many."""
    x = bounded if isinstance(bounded, Number) else Number(np.asarray(bounded, float), grade=grade)
    wider = math.sqrt(1 + 2 * math.log(max(several, 1)) / K**2)
    radius = np.minimum(x.full(np.asarray(x.worst)), wider * np.asarray(x.radius))
    moved = np.abs(x.value - exact)
    radius = radius * (2.0 if grade is FP64 else 1.0) + np.where(moved > np.asarray(x.radius) / 4, moved, 0.0)
    radius = np.broadcast_to(radius, y.shape)
    result = result_format(portions.mechanism.dtype_of(name, portions.bench.dtype), grade)
    reach = np.maximum(np.abs(finite(np.broadcast_to(x.value, y.shape))) + finite(radius), np.abs(finite(y)))
    return np.where(np.isnan(radius), np.inf, radius) + half_unit(reach, result)


def _units(y: NDArray[np.float64], exact: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """Errors in units of their bounds."""
    same = (y == exact) | (np.isnan(y) & np.isnan(exact)) | np.isinf(radius)
    return np.where(same, 0.0, np.where(np.isfinite(y) & np.isfinite(exact), np.abs(y - exact) / radius, np.inf))
