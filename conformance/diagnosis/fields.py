"""The two sides of a law around its worst entry: a part of one plane of an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SpecError
from ..judging.bounds import Stray
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from ..mechanisms.mechanism import Law
from ..numerics.grades import Grade
from .entries import compared

ROWS, COLUMNS = 10, 8
"""The largest part that is shown."""
Rows = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Field:
    """Both sides of a comparison in the plane of their last two axes, [rows, columns], and their errors."""

    case: str
    """The label of the case."""
    plane: tuple[int, ...]
    """The index of the plane, along the axes before the last two."""
    first: tuple[int, int]
    """The row and column at which the part begins."""
    found: Rows
    expected: Rows
    units: Rows
    """Errors in units of the bound."""


def field_of(trial: Trial, law: Law, grade: Grade | None) -> Field | None:
    """The comparison of a law that fails most on a case; None where none fails, or none is of several entries."""
    try:
        records, _ = compared(trial, law, grade)
    except (Stray, Declined, Faulted, SpecError):
        return None
    wide = [record for record in records if np.size(record.units) > 1]
    worst = max(wide, key=lambda record: float(np.max(record.units)), default=None)
    if worst is None or not np.max(worst.units) > 1:
        return None
    arrays = np.broadcast_arrays(worst.left.value, worst.right.value, worst.units)
    found, expected, units = (np.atleast_2d(x) for x in arrays)
    *plane, row, column = (int(i) for i in np.unravel_index(int(np.argmax(units)), units.shape))
    rows, columns = (
        _part(at, size, most) for at, size, most in zip((row, column), units.shape[-2:], (ROWS, COLUMNS), strict=True)
    )
    shown = [x[(*plane, rows, columns)] for x in (found, expected, units)]
    return Field(
        trial.sample.case.label,
        tuple(plane),
        (rows.start, columns.start),
        *(tuple(tuple(row) for row in x.tolist()) for x in shown),
    )


def _part(at: int, size: int, most: int) -> slice:
    """At most so many places of an axis, with one of them in the middle as far as the axis goes."""
    start = max(0, min(at - most // 2, size - most))
    return slice(start, min(size, start + most))
