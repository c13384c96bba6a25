"""Dataclasses to plain data and back: the types of their fields say which values are allowed.

A dataclass is a list of its name and its fields, an array a list of its dtype, its shape and its bytes. What is read is
checked against the types, so that nothing else can come out of another process.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from . import exact

DTYPES = {dtype.char: dtype for dtype in map(np.dtype, "?bBhHiIlLqQefdF")}
"""The dtypes of arrays that are carried: booleans, integers, fractions, and complex numbers of single precision."""
ARRAYS = (np.ndarray, NDArray)
"""What a hint of an array is made of: the second one from NumPy 2.5 on, where it is an alias of its own."""
SMALL = 1 << 10
"""Bytes of an array beyond which it is not copied before it is written."""
Writer = Callable[[Any], Any]
Reader = Callable[[Any], Any]


class MisfitError(ValueError):
    """What was read is not what was to be read."""


def read(x: Any, kinds: tuple[type, ...]) -> Any:
    """The dataclass of one of those types that was written as `x`; `MisfitError` if none was."""
    try:
        return _one_of(kinds)(x)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, MemoryError) as error:
        raise MisfitError(f"{type(error).__name__}: {error}") from None


# Writing


def written(x: Any) -> list[Any]:
    """A dataclass in plain data."""
    kind = type(x)
    values, others = _fields(kind)
    row = [kind.__name__, *values(x)]
    for at, write in others:
        row[at] = write(row[at])
    return row


@functools.cache
def _fields(kind: type) -> tuple[Callable[[Any], tuple[Any, ...]], list[tuple[int, Writer]]]:
    """How to get all fields of a dataclass, and how those are written that are not written as they are."""
    hints, names = get_type_hints(kind), [f.name for f in fields(kind)]
    writers = [(at, _writer(hints[name])) for at, name in enumerate(names, 1)]
    values = operator.attrgetter(*names) if len(names) > 1 else lambda x: tuple(getattr(x, name) for name in names)
    return values, [(at, write) for at, write in writers if write is not None]


@functools.cache
def _writer(hint: Any) -> Writer | None:
    """How a value of a type is written; None where it is written as it is."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return _exactly
    if origin in ARRAYS:
        return _array
    if is_dataclass(hint):
        return written
    if origin in (Union, UnionType):
        return _if_any
    if origin is Mapping:
        return functools.partial(_items, _writer(parts[1]))
    if origin in (tuple, frozenset):
        return functools.partial(_parts, _writer(parts[0]))
    return None


def _exactly(x: Any) -> Any:
    return exact.written(x if type(x) in exact.PLAIN else exact.exact(x))


def _if_any(x: Any) -> Any:
    return None if x is None else written(x)


def _items(write: Writer | None, x: Mapping[str, Any]) -> dict[str, Any]:
    return {name: write(y) for name, y in x.items()} if write else dict(x)


def _parts(write: Writer | None, x: Iterable[Any]) -> list[Any]:
    return [write(y) for y in x] if write else [*x]


def _array(x: NDArray[Any]) -> list[Any]:
    """An array as its dtype, its shape and its bytes; other dtypes than those of `DTYPES` are a `TypeError`."""
    dtype = x.dtype
    if dtype.char not in DTYPES or not dtype.isnative:
        raise TypeError(f"an array of {dtype} cannot be sent")
    data = x.tobytes() if x.nbytes <= SMALL else np.ascontiguousarray(x).data.cast("B")
    return [dtype.char, list(x.shape), data]


# Reading


@functools.cache
def _reader(hint: Any) -> Reader:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return exact.read
    if origin in ARRAYS:
        return _array_of
    if is_dataclass(hint):
        return _one_of((hint,))
    if origin in (Union, UnionType):
        return _one_of(parts)
    if origin is Literal:
        return functools.partial(_known, frozenset(parts))
    if origin is Mapping:
        return functools.partial(_mapping, _reader(parts[1]))
    if origin is frozenset or parts[1:] == (...,):
        return functools.partial(_several, origin, _reader(parts[0]))
    if origin is tuple:
        return functools.partial(_tuple, tuple(map(_reader, parts)))
    return functools.partial(_plain, hint)


@functools.cache
def _one_of(kinds: tuple[Any, ...]) -> Reader:
    """Reads one of several dataclasses by its name, or None if that is among them."""
    none = NoneType in kinds
    known = {kind.__name__: kind for kind in kinds if kind is not NoneType}

    def dataclass_of(x: Any) -> Any:
        if x is None and none:
            return None
        if type(x) is not list:
            raise MisfitError("no dataclass")
        kind = known[x[0]]
        types, others = _parts_of(kind)
        if len(x) != len(types) + len(others) + 1:
            raise MisfitError(f"{len(x) - 1} fields of {kind.__name__}")
        for at, expected in types:
            if type(x[at]) is not expected:
                raise MisfitError(f"{type(x[at]).__name__} in {kind.__name__}, not {expected.__name__}")
        for at, read in others:
            x[at] = read(x[at])
        return kind(*x[1:])

    return dataclass_of


@functools.cache
def _parts_of(kind: type) -> tuple[list[tuple[int, type]], list[tuple[int, Reader]]]:
    """The fields that are read as they are, with their types, and how the others are read."""
    hints = get_type_hints(kind)
    found = [(at, hints[f.name]) for at, f in enumerate(fields(kind), 1)]
    return [each for each in found if each[1] in exact.PLAIN], [
        (at, _reader(hint)) for at, hint in found if hint not in exact.PLAIN
    ]


def _plain(kind: type, x: Any) -> Any:
    if type(x) is not kind:
        raise MisfitError(f"{type(x).__name__}, not {kind.__name__}")
    return x


def _known(words: frozenset[str], x: Any) -> Any:
    if type(x) is not str or x not in words:
        raise MisfitError("a word without a meaning")
    return x


def _mapping(reader: Reader, x: Any) -> dict[str, Any]:
    found = {name: reader(y) for name, y in _plain(dict, x).items()}
    for name in found:
        _plain(str, name)
    return found


def _several(kind: type, reader: Reader, x: Any) -> Any:
    return kind([reader(y) for y in _plain(list, x)])


def _tuple(readers: tuple[Reader, ...], x: Any) -> tuple[Any, ...]:
    return tuple(reader(y) for reader, y in zip(readers, _plain(list, x), strict=True))


def _array_of(x: Any) -> NDArray[Any]:
    char, shape, data = _plain(list, x)
    dtype = DTYPES[char]
    if type(data) is not bytes or math.prod(_plain(list, shape)) * dtype.itemsize != len(data):
        raise MisfitError("an array of another length than its shape has")
    array = np.ndarray(shape, dtype, data)
    return np.asarray(array.view(np.uint8) != 0) if char == "?" else array
