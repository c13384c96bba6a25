"""Mechanisms as plain data, so that a file is parsed only once.

Expressions are kept with their text and with what they read, and compiled when they are called. What a further
mechanism takes over from its operator is left out; it is the operator's own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..data.store import code_of, digest
from ..errors import Place
from ..language.expressions import Expression
from ..language.scopes import DrawSite, Reads, Scope, Takes
from .mechanism import Example, Known, Law, Mechanism, Mistake, Printed, Reject, Setting
from .schema import spec_folder

ASSIGNED = ("sizes", "inputs", "options", "requires", "definition", "normal_form")
"""The parts of a mechanism that are expressions by name."""
ENTRIES: Mapping[str, type[Any]] = {
    "regimes": Setting,
    "scenarios": Setting,
    "crossed": Setting,
    "laws": Law,
    "mistakes": Mistake,
    "rejects": Reject,
    "examples": Example,
}
"""The parts that are entries by name."""
APART = ("path", "library", "reference_place")
"""The parts that depend on where the file is."""
OTHERS = tuple(f.name for f in fields(Mechanism) if f.name not in (*ASSIGNED, *ENTRIES, *APART))
SOURCES = ("attnspec.language", "attnspec.mechanisms", "attnspec.numerics", "attnspec.reference")
"""The packages that make mechanisms of texts."""
_TUPLES = ("sources", "outputs", "random", "required")
Packed = list[Any]


@functools.cache
def machinery() -> str:
    """A digest of all that makes mechanisms of texts."""
    schema = (spec_folder() / "schema.json").read_bytes()
    return digest(sys.version, np.__version__, *map(code_of, SOURCES), schema)


def packed(mechanism: Mechanism, base: Mechanism | None, takes: Mapping[str, Takes]) -> dict[str, Any]:
    """A mechanism in plain data; `base` is that of its operator, and `takes` has the operators that are called."""
    writer = _Writer()
    found: dict[str, Any] = {name: _bare(getattr(mechanism, name)) for name in OTHERS}
    for part in ASSIGNED:
        found[part] = writer.part(getattr(mechanism, part), getattr(base, part, {}), writer.expression)
    for part in ENTRIES:
        found[part] = writer.part(getattr(mechanism, part), getattr(base, part, {}), writer.entry)
    found["scopes"] = list(writer.scopes.values())
    found["reference_place"] = writer.place(mechanism.reference_place)
    found["takes"] = {name: [list(x.positional), list(x.named)] for name, x in takes.items()}
    return found


def called(mechanism: Mechanism) -> frozenset[str]:
    """The operators that the expressions of a mechanism call."""
    return frozenset(name for expression in expressions(mechanism) for name in expression.calls)


def expressions(mechanism: Mechanism) -> Iterator[Expression]:
    """All expressions of a mechanism."""
    for part in ASSIGNED:
        yield from getattr(mechanism, part).values()
    for part, kind in ENTRIES.items():
        for entry in getattr(mechanism, part).values():
            for name in (f.name for f in fields(kind)):
                value = getattr(entry, name)
                if isinstance(value, Expression):
                    yield value
                elif name in _ASSIGNMENTS:
                    yield from value.values()


def unpacked(found: dict[str, Any], shown: str, base: Mechanism | None, library: Known) -> Mechanism:
    """The mechanism that was packed; what messages call its file may be another name by now.

    Raises `ValueError`, `TypeError` or `LookupError` for other data.
    """
    takes = {name: Takes(tuple(x), frozenset(named)) for name, (x, named) in found.pop("takes").items()}
    reader = _Reader(shown, found.pop("scopes"), takes)
    for part in ASSIGNED:
        found[part] = reader.part(found[part], getattr(base, part, {}), reader.expression)
    for part, kind in ENTRIES.items():
        found[part] = reader.part(found[part], getattr(base, part, {}), functools.partial(reader.entry, kind))
    found |= {name: tuple(found[name]) for name in _TUPLES}
    found["shapes"] = {name: tuple(axes) for name, axes in found["shapes"].items()}
    found["own"] = frozenset(found["own"])
    found["reference_place"] = reader.place(found["reference_place"])
    return Mechanism(**found, path=shown, library=library)


def _bare(x: Any) -> Any:
    """Plain data without tuples and sets."""
    if isinstance(x, Mapping):
        return {name: _bare(y) for name, y in x.items()}
    return [_bare(y) for y in x] if isinstance(x, tuple | frozenset | list) else x


_ASSIGNMENTS = ("given", "assigned", "change", "call")
"""Fields of entries that are expressions by name."""


class _Writer:
    """Writes parts of one mechanism; a scope that several expressions share is written once."""

    def __init__(self) -> None:
        self.scopes: dict[tuple[Any, ...], Packed] = {}
        self._places: dict[tuple[Any, ...], int] = {}

    def part(self, entries: Mapping[str, Any], taken_over: Mapping[str, Any], write: Callable[[Any], Any]) -> Any:
        return {name: None if taken_over.get(name) is x else write(x) for name, x in entries.items()}

    def entry(self, x: Any) -> Packed:
        return [self.field(f.name, getattr(x, f.name)) for f in fields(x)]

    def field(self, name: str, x: Any) -> Any:
        if isinstance(x, Expression):
            return self.expression(x)
        if name in _ASSIGNMENTS:
            return {each: self.expression(y) for each, y in x.items()}
        if name == "gives":
            return {output: [np.asarray(p.value).tolist(), np.asarray(p.tolerance).tolist()] for output, p in x.items()}
        return self.place(x) if name == "place" else _bare(x)

    def place(self, place: Place | None) -> Packed | None:
        return None if place is None else [place.line, place.column, *([place.folds] if place.folds else [])]

    def expression(self, x: Expression) -> Packed:
        draws = [[site.name, site.ordinal, site.count] for site in x.draws]
        return [x.text, self.place(x.place), x.claim, self.scope(x.scope), list(x.uses), list(x.calls), x.asks, draws]

    def scope(self, x: Scope) -> int:
        key = (x.names, tuple(x.words.items()), x.outputs, x.replaceable, x.draws)
        if key not in self.scopes:
            self._places[key] = len(self.scopes)
            self.scopes[key] = [list(x.names), dict(x.words), list(x.outputs), list(x.replaceable), x.draws]
        return self._places[key]


class _Reader:
    """Reads what a `_Writer` wrote."""

    def __init__(self, shown: str, scopes: list[Packed], takes: Mapping[str, Takes]) -> None:
        self.shown = shown
        self.scopes = [
            Scope(frozenset(names), words, frozenset(outputs), frozenset(replaceable), takes, draws)
            for names, words, outputs, replaceable, draws in scopes
        ]

    def part(self, rows: Mapping[str, Any], taken_over: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
        return {name: taken_over[name] if row is None else read(row) for name, row in rows.items()}

    def entry(self, kind: type[Any], row: Packed) -> Any:
        return kind(*(self.field(f.name, x) for f, x in zip(fields(kind), row, strict=True)))

    def field(self, name: str, x: Any) -> Any:
        if name in ("when", "holds"):
            return self.expression(x)
        if name in _ASSIGNMENTS:
            return {each: self.expression(row) for each, row in x.items()}
        if name == "gives":
            return {output: Printed(np.asarray(number), np.asarray(error)) for output, (number, error) in x.items()}
        if name == "place":
            return self.place(x)
        return tuple(x) if name == "sources" else frozenset(x) if name == "asking" else x

    def place(self, row: Packed | None) -> Place | None:
        return None if row is None else Place(self.shown, *row)

    def expression(self, row: Packed) -> Expression:
        text, place, claim, scope, uses, calls, asks, draws = row
        reads = Reads(frozenset(uses), frozenset(calls), asks, tuple(DrawSite(*site) for site in draws))
        return Expression(text, self.scopes[scope], self.place(place), claim=claim, reads=reads)
