"""Values of exact types, which a subject or another process may hand over without any code of its own.

A subclass of int or str is replaced by the number or the text that it holds. What is not a plain value at all is known
by its type and its text alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .texts import safe

ROOM = 1 << 20
"""Values that one value may hold, at all levels."""
DEPTH = 16
"""Levels of nesting of one value."""
PLAIN = frozenset({type(None), bool, int, float, str})
"""Types of values that hold no others."""
HELD: dict[type, Callable[[Any], Any]] = {int: int.__int__, float: float.__float__, str: str.__str__}
"""What a value of a subclass holds; the methods of the subclass itself are not asked."""
SERIES: dict[str, type] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}
WIDEST = 63
"""Bits of integers that a message holds as they are."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that is not a plain one: its type and its text, and no more."""

    kind: str
    says: str

    def __repr__(self) -> str:
        return self.says


def exact(x: Any) -> Any:
    """The same value in exact types: a plain one, a container of such, or a `Foreign` one.

    What holds more than a message can is foreign as a whole.
    """
    try:
        return _exact(x, [ROOM], DEPTH)
    except _FullError:
        kind = foreign_kind(x)
        return Foreign(kind, f"({kind} that holds too much)")


def plain_or_none(x: Any) -> Any:
    """A value that holds no others, in its exact type; None for any other."""
    found = exact(x)
    return found if type(found) in PLAIN else None


def is_number(x: Any) -> bool:
    """Whether something is one plain number, which a boolean is not."""
    return issubclass(type(x), int | float) and type(x) is not bool


def is_numbers(x: Any) -> bool:
    """Whether something is a list of plain numbers and nothing else."""
    return type(x) is list and bool(x) and all(type(n) in (int, float) for n in x)


def exact_text(x: object) -> str:
    """The text of an object, as str itself; it raises what the object's own method raises."""
    return str.__str__(str(x))


def foreign(x: object) -> Foreign:
    """A value as its type and its text."""
    kind = foreign_kind(x)
    try:
        return Foreign(kind, safe(str.__str__(repr(x))))
    except Exception:
        return Foreign(kind, f"({kind} without a text)")


def foreign_kind(x: object) -> str:
    """The name of a value's type."""
    try:
        return safe(str.__str__(type(x).__name__))
    except Exception:
        return "object"


class _FullError(Exception):
    """There is no room for all that a value holds."""


def _exact(x: Any, room: list[int], depth: int) -> Any:
    kind = type(x)
    room[0] -= 1
    if room[0] < 0:
        raise _FullError
    if kind in PLAIN or kind is range or kind is Foreign:
        return x
    for base, held in HELD.items():
        if issubclass(kind, base):
            return held(x)
    if issubclass(kind, np.generic | np.ndarray):
        return _of_numpy(x, room, depth)
    if depth:
        for base in SERIES.values():
            if issubclass(kind, base):
                return base([_exact(y, room, depth - 1) for y in base.__iter__(x)])
        if issubclass(kind, dict):
            return {_key(k): _exact(y, room, depth - 1) for k, y in dict.items(x)}
    return foreign(x)


def _key(x: Any) -> Any:
    found = exact(x)
    return found if type(found) in PLAIN else foreign(x)


def _of_numpy(x: Any, room: list[int], depth: int) -> Any:
    """A number of NumPy as one of Python, an array as a list."""
    try:
        plain = np.asarray(x)
        return _exact(plain.tolist(), room, depth) if plain.size <= ROOM and plain.dtype.kind in "biufU" else foreign(x)
    except Exception:
        return foreign(x)


# As messages hold them


def written(x: Any) -> Any:
    """An exact value as a message holds it: a plain one as it is, any other as a list that begins with what it is."""
    kind = type(x)
    if kind is int and x.bit_length() > WIDEST:
        return ["int", hex(x)]
    if kind in PLAIN:
        return x
    if kind is range:
        return ["range", *map(written, (x.start, x.stop, x.step))]
    if kind is Foreign:
        return ["foreign", x.kind, x.says]
    if kind is dict:
        return ["dict", *(written(part) for pair in x.items() for part in pair)]
    if kind.__name__ in SERIES:
        return [kind.__name__, *map(written, x)]
    raise TypeError(f"{kind.__name__} is not an exact value")


def read(x: Any) -> Any:
    """The value that was written so; `ValueError` or `TypeError` where nothing is written so."""
    if type(x) in PLAIN:
        return x
    if type(x) is not list:
        raise TypeError("no value is written so")
    kind, *parts = x
    if kind == "int":
        (text,) = parts
        return int(text, 16)
    if kind == "foreign":
        _, _ = parts
        return Foreign(*(safe(str(part)) for part in parts))
    values = [read(part) for part in parts]
    if kind == "range":
        start, stop, step = values
        return range(start, stop, step)
    if kind == "dict":
        return dict(zip(values[::2], values[1::2], strict=True))
    return SERIES[kind](values)
