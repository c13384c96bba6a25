"""The limits of a specification: the size of an array, the memory of an evaluation, the work of a law on a case.

A spec may come from a stranger, so every array is measured before it is made and all work is counted; what goes over is
a `SpecError`, never a machine out of memory or a run that hangs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Place, SpecError

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
CARRIED_ARRAYS = 5 / 2
"""How many times fewer entries an operation may give that carries errors; it holds some twenty arrays at a time."""
MEMORY = 192 << 20
"""Bytes that the named values of one evaluation may hold, with the arrays that wait for an operation."""
ROOMY = 10**15
"""The work of an evaluation that memory alone bounds."""
NOTICED = 1 << 20
"""Bytes from which an array that waits is counted."""
PRODUCTS_IN_ONE = 64
"""Multiplications of a matrix product in one unit of work; numbers that carry errors need several products."""

SINGLE = frozenset((int, float, bool, str, type(None)))
"""Types of single values, which take no memory to speak of."""

SPENT = "the work limit of one law on one case is exceeded"
"""What is said where all work is used up."""


class OverspentError(SpecError):
    """More is asked for than is allowed."""


@dataclass(slots=True)
class Meter:
    """Entries that one array may have, and what all that is done for one law on one case may cost.

    A unit of work is about ten nanoseconds; to add two arrays takes one for each entry, at most.
    """

    array: int = 5_000_000
    work: int = 10**8
    held: int = 0
    """Bytes of the arrays that wait while others are computed."""


@dataclass(slots=True)
class Budget:
    """The work that all laws of one file may take together on all of its cases, in one run."""

    left: int = 10**10


_METER: ContextVar[Meter] = ContextVar("meter", default=Meter(work=ROOMY))  # noqa: B039 - shared outside any body
"""The allowance in force; outside any body arrays alone are bounded, for a process may live long."""
_ROOM: ContextVar[int | None] = ContextVar("room", default=None)
"""Bytes that an evaluation may take, where somebody has said so."""
_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


class metered:  # noqa: N801 - it is used as a function, and entered too often for a generator
    """Evaluate the body with a fresh allowance, which is part of that of the file, if there is one."""

    __slots__ = ("array", "meter", "of_file", "outer", "work")

    def __init__(self, array: int = Meter().array, work: int = Meter().work) -> None:
        self.array, self.work = array, work

    def __enter__(self) -> None:
        room = _ROOM.get()
        self.of_file = _BUDGET.get() if room is None else None
        if room is not None:
            self.array, self.work = room // 8, ROOMY
        if self.of_file is not None and self.of_file.left <= 0:
            raise OverspentError("the work limit of one specification in one run is exceeded")
        self.meter = Meter(self.array, self.work, _METER.get().held)
        self.outer: Token[Meter] = _METER.set(self.meter)

    def __exit__(self, *_: object) -> None:
        if self.of_file is not None:
            self.of_file.left -= self.work - self.meter.work
        _METER.reset(self.outer)


@contextmanager
def roomy(size: int) -> Iterator[None]:
    """Have evaluations in the body bounded by so many bytes, and by nothing else: the sizes are those of a profile."""
    outer = _ROOM.set(size)
    try:
        yield
    finally:
        _ROOM.reset(outer)


@contextmanager
def budgeted(work: int = Budget().left) -> Iterator[None]:
    """Evaluate what belongs to one file in the body, with an allowance for all of it."""
    outer = _BUDGET.set(Budget(work))
    try:
        yield
    finally:
        _BUDGET.reset(outer)


def charge(entries: int, times: int = 1, *, carried: bool = False) -> None:
    """Account for an array about to be made, each entry of which takes so many units of work.

    One that an operation makes of numbers that are `carried` with errors may have fewer entries.
    """
    meter = _METER.get()
    limit = int(meter.array / CARRIED_ARRAYS) if carried else meter.array
    if entries > limit:
        kind = " for one that carries errors" if carried else ""
        raise OverspentError(f"an array of {entries:,} entries is over the limit of {limit:,}{kind}")
    meter.work -= entries * times + OPERATION
    if meter.work < 0:
        raise OverspentError(SPENT)


def charge_each(sizes: Iterable[tuple[int, int]]) -> None:
    """Account for several arrays: for each its entries, and the units of work that each of them takes."""
    meter = _METER.get()
    left, limit = meter.work, meter.array
    for entries, times in sizes:
        if entries > limit:
            raise OverspentError(f"an array of {entries:,} entries is over the limit of {limit:,}")
        left -= entries * times + OPERATION
    meter.work = left
    if left < 0:
        raise OverspentError(SPENT)


def hold(size: int, place: Place | None = None) -> None:
    """Account for the bytes of named values, of which the last stands at a place, beside those of what waits."""
    memory = _ROOM.get() or MEMORY
    if size + _METER.get().held > memory:
        raise OverspentError(f"the values of one evaluation take more than {memory >> 20} MB together", place)


def computed(parts: Iterable[Callable[[Any], Any]], env: Any) -> list[Any]:
    """The values of the parts of an expression in an environment, each computed while those before it wait."""
    values, held = [], 0
    for part in parts:
        if held < NOTICED:
            x = part(env)
        else:
            with waiting(held):
                x = part(env)
        values.append(x)
        if type(x) not in SINGLE:
            held += getattr(x, "nbytes", 0)
    return values


def computed_both(left: Callable[[Any], Any], right: Callable[[Any], Any], env: Any) -> tuple[Any, Any]:
    """The values of two parts, as by `computed`."""
    x = left(env)
    if type(x) in SINGLE or (held := getattr(x, "nbytes", 0)) < NOTICED:
        return x, right(env)
    with waiting(held):
        return x, right(env)


@contextmanager
def waiting(size: int) -> Iterator[None]:
    """Evaluate the body while arrays of so many bytes wait for it."""
    hold(size)
    meter = _METER.get()
    meter.held += size
    try:
        yield
    finally:
        meter.held -= size


def charge_product(multiplications: int, *, carried: bool) -> None:
    """Account for a matrix product of fractions, by what is multiplied in it."""
    spend(multiplications * (5 if carried else 1) // PRODUCTS_IN_ONE)


def spend(work: int) -> None:
    """Account for work about to be done."""
    meter = _METER.get()
    meter.work -= work
    if meter.work < 0:
        raise OverspentError(SPENT)


def unspent() -> int:
    """The work that is left."""
    return _METER.get().work


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
        shape = broadcast(*shapes)
    except ValueError:
        raise SpecError(f"shapes {' and '.join(map(str, shapes))} do not fit") from None
    charge(math.prod(shape))
    return shape


@functools.lru_cache(4096)
def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays broadcast to, or a `ValueError`."""
    return np.broadcast_shapes(*shapes)
