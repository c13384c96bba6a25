"""What a specification may spend: the size of one array, and the work of one law on one case.

A spec may come from a stranger, so every array is measured before it is made and all work is counted; what goes over is
a `SpecError`, never a machine out of memory or a run that hangs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ..errors import SpecError

TEXT_LENGTH = 600
"""Characters of one expression."""
NESTING = 30
"""Levels of nesting in one expression, and in one file."""
WHOLE_NUMBER = 10**6
"""The largest integer that an expression may name, or use as a size."""
FILE_BYTES = 256 * 1024
"""Bytes of one specification file."""
VALUES = 10_000
"""Keys and values of one file; the largest that is shipped has 1,400."""
ENTRIES = 1000
"""Entries of one mapping or list of a file, whatever its schema says."""
SCALAR = 10_000
"""Characters of one key or value of a file."""
FAULTS = 50
"""Faults of one file that are told; looking for what was meant by each takes time."""
COUNTED = 1000
"""Faults of one file that are counted."""
REFERENCES = 300_000
"""Uses of one name by another that are followed in one file, in search of cycles."""
OPERATION = 100
"""The work of an operation beside its entries: even on none it takes the time that so many more would."""
CHARACTER = 10
"""The work of one character of an expression that is evaluated, as not all that stands there is an operation."""
CALL = 20 * OPERATION
"""The work of calling an operator, beside what its definition does."""
CARRIED = 4
"""How much longer an operation takes on numbers that carry errors, of which each holds four arrays."""
PRODUCTS_IN_ONE = 64
"""Multiplications of a matrix product in one unit of work; numbers that carry errors need several products."""


class OverspentError(SpecError):
    """More is asked for than is allowed."""


@dataclass(slots=True)
class Meter:
    """Entries that one array may have, and what all that is done for one law on one case may cost.

    A unit of work is about ten nanoseconds; to add two arrays takes one for each entry, at most.
    """

    array: int = 5_000_000
    work: int = 10**8


@dataclass(slots=True)
class Budget:
    """The work that all laws of one file may take together on all of its cases, in one run."""

    left: int = 10**10


_meter = Meter()
_budget: Budget | None = None


@contextmanager
def metered(array: int = Meter().array, work: int = Meter().work) -> Iterator[None]:
    """Evaluate the body with a fresh allowance, which is part of that of the file, if there is one."""
    global _meter
    if _budget is not None and _budget.left <= 0:
        raise OverspentError("the work allowed to one specification in one run is spent")
    outer, _meter = _meter, Meter(array, work)
    try:
        yield
    finally:
        if _budget is not None:
            _budget.left -= work - _meter.work
        _meter = outer


@contextmanager
def budgeted(work: int = Budget().left) -> Iterator[None]:
    """Evaluate what belongs to one file in the body, with an allowance for all of it."""
    global _budget
    outer, _budget = _budget, Budget(work)
    try:
        yield
    finally:
        _budget = outer


def charge(entries: int, times: int = 1) -> None:
    """Account for an array about to be made, each entry of which takes so many units of work."""
    if entries > _meter.array:
        raise OverspentError(f"an array of {entries:,} entries is over the limit of {_meter.array:,}")
    spend(entries * times + OPERATION)


def charge_product(multiplications: int, *, carried: bool) -> None:
    """Account for a matrix product of fractions, by what is multiplied in it."""
    spend(multiplications * (5 if carried else 1) // PRODUCTS_IN_ONE)


def spend(work: int) -> None:
    """Account for work about to be done."""
    _meter.work -= work
    if _meter.work < 0:
        raise OverspentError("the work allowed to one law on one case is spent")


def joined_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays broadcast to, accounted for; shapes that do not fit are an error."""
    first = shapes[0]
    for shape in shapes[1:]:
        if shape and shape != first:
            break
    else:
        charge(math.prod(first))
        return first
    try:
        shape = _broadcast(*shapes)
    except ValueError:
        raise SpecError(f"shapes {' and '.join(map(str, shapes))} do not fit") from None
    charge(math.prod(shape))
    return shape


@functools.lru_cache(4096)
def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*shapes)
