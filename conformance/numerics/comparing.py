"""Comparisons of numbers with bounds: three-valued, and recorded where somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .parts import absent
from .truths import Truth, some


class Bounded(Protocol):
    """What a comparison reads of a number."""

    @property
    def value(self) -> Any: ...

    @property
    def radius(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison as it was made: both sides, the bound, and the error in units of the bound."""

    left: Bounded
    right: Bounded
    radius: Any
    units: Any


_RECORD: ContextVar[list[Comparison] | None] = ContextVar("record", default=None)


@contextmanager
def recording() -> Iterator[list[Comparison]]:
    """Keep the comparisons of error-carrying numbers that are made in the body."""
    record: list[Comparison] = []
    outer = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(outer)


def compared(x: Bounded, y: Bounded, holds_nominally: Any, gap: Any) -> Truth:
    """Whether a comparison holds that does so of the values; `gap` is how far it is from holding, or failing."""
    radius, record = x.radius + y.radius, _RECORD.get()
    if absent(radius):
        if record is not None:
            record.append(Comparison(x, y, 0.0, np.where(holds_nominally, 0.0, np.inf)))
        return Truth(holds_nominally, holds_nominally)
    units = np.where(holds_nominally, 0.0, gap / radius)
    decided = (np.isnan(gap) & np.isfinite(radius)) | (radius == 0)
    unknown = np.isnan(units)
    if some(unknown):
        units = np.where(unknown, np.where(decided, np.inf, 0.0), units)
    if record is not None:
        record.append(Comparison(x, y, radius, units))
    sure = decided | (np.abs(gap) > radius)
    return Truth(holds_nominally | (units <= 1), holds_nominally & sure, units)
