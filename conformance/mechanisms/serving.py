"""The production-size cases: data in `spec/serving/`, one file for each operator.

Sizes are chosen by the side of which boundary they are on. Rows of a covering array have every two sides together, as
far as their cases fit; other cases are written out.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SpecError, did_you_mean
from ..language.draws import Source
from ..language.expressions import Expression
from ..language.scopes import CallSite, Scope
from ..language.syntax import assignments
from ..numerics.grades import Grade
from .amounts import pairs_of, scattered
from .documents import read
from .mechanism import Assignments, Mechanism
from .restriction import restrictable
from .schema import faults_beside, place_of, spec_folder

ROW = "pair_"
"""What the names of rows begin with."""
_TILE = re.compile(r"\btile\b")
TRIED = 64
"""Rows that are looked at for one pair."""


@dataclass(frozen=True, slots=True)
class Far:
    """How the arrays of a case lie in more memory than they fill."""

    apart: Expression | None = None
    """Entries of memory between the first and the last place of an axis of every array."""
    axis: str = ""
    """The size whose axis is a part of a larger pool."""
    pool: Expression | None = None
    """How many places that has."""
    numbers: str = ""
    """The input that has numbers of these places."""


@dataclass(frozen=True, slots=True)
class Company:
    """A case whose rows are asked for in different company."""

    axis: str
    """The axis whose positions are asked for by themselves."""
    assigned: Assignments
    lengths: Mapping[str, str]
    """Where these are items of a packed array: the inputs that have their lengths, each with the size of the axis."""
    option: str = ""
    """The option that says in which parts the axis is fed, where parts of it are not asked for by themselves."""


class Served(dict[str, Mapping[str, Assignments]]):
    """The cases of the operators of a library."""


def serving(mechanism: Mechanism) -> Mapping[str, Assignments]:
    """The cases of a mechanism that states its operator, by name; none where nobody has written any."""
    known = mechanism.kept(Served)
    if mechanism.name not in known:
        path = spec_folder() / "serving" / f"{mechanism.name}.yaml"
        own = mechanism.name == mechanism.operator and path.is_file()
        known[mechanism.name] = dict(_cases(mechanism, _read(path))) if own else {}
    return known[mechanism.name]


def far_of(mechanism: Mechanism, name: str) -> Far | None:
    """How the arrays of a case lie, if they are not simply one after the other."""
    path = spec_folder() / "serving" / f"{mechanism.operator}.yaml"
    stated = {str(key): x for key, x in _read(path).get("far", {}).items()} if path.is_file() else {}
    if name not in stated:
        return None
    parts, scope = {str(key): x for key, x in stated[name].items()}, _scope(mechanism)
    if "apart" in parts:
        return Far(Expression(str(parts["apart"]), scope, place_of(parts["apart"])))
    ((axis, pool),) = _assigned(parts["pool"], scope).items()
    return Far(None, axis, pool, str(parts["numbers"]))


def invariance(mechanism: Mechanism) -> dict[str, Company]:
    """The cases on which bits of rows are compared, by what they may depend on: batch or chunk.

    The file of an operator has those of its further mechanisms, too.
    """
    path = spec_folder() / "serving" / f"{mechanism.operator}.yaml"
    stated = _plain(_read(path)) if path.is_file() else {}
    if mechanism.name != mechanism.operator:
        stated = {"invariance": stated.get("further", {}).get(mechanism.name, {})}
    scope = _scope(mechanism)
    return {
        kind: Company(str(own["axis"]), _assigned(own["case"], scope), _lengths(own), str(own.get("option", "")))
        for kind, own in stated.get("invariance", {}).items()
    }


def _plain(document: Mapping[Any, Any]) -> dict[str, Any]:
    """A mapping of a file with plain keys, and so those in it."""
    return {str(key): _plain(x) if isinstance(x, Mapping) else x for key, x in document.items()}


def _lengths(own: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(size) for name, size in own.get("lengths", {}).items()}


def threads(mechanism: Mechanism) -> Assignments | None:
    """The case on which threads call at once; None where nobody has written any."""
    path = spec_folder() / "serving" / f"{mechanism.name}.yaml"
    stated = _read(path).get("threads") if mechanism.name == mechanism.operator and path.is_file() else None
    return None if stated is None else _assigned(stated, _scope(mechanism))


def has_tiles(mechanism: Mechanism) -> bool:
    """Whether cases at the edges of declared tiles can be made."""
    return bool(_tiled(mechanism))


def at_tiles(mechanism: Mechanism, tiles: Sequence[int], splits: int) -> dict[str, Assignments]:
    """Cases on both sides of the tiles that a subject declares, of queries and of keys, and of their splits."""
    plain, scope = _tiled(mechanism), _scope(mechanism)
    if not plain or not tiles:
        return {}
    keys = tiles[-1]
    wanted = {"rows": [n for n in (tiles[0] - 1, tiles[0], tiles[0] + 1, 2 * tiles[0] + 1) if n]}
    wanted["keys"] = [n for n in (keys - 1, keys, keys + 1, 2 * keys + 1) if n]
    if splits > 1:
        wanted["keys"] += [splits * keys - 1, splits * keys, splits * keys + 1]
    found = {}
    for kind, lengths in wanted.items():
        for n in lengths:
            own = _assigned(_TILE.sub(str(n), str(plain[kind])), scope)
            found[f"{ROW}{kind}_{n}"] = {**_assigned(plain["beside"], scope), **own}
    return found


def _tiled(mechanism: Mechanism) -> Mapping[str, Any]:
    """What a file says of tiles."""
    path = spec_folder() / "serving" / f"{mechanism.name}.yaml"
    if mechanism.name != mechanism.operator or not path.is_file():
        return {}
    return {str(key): x for key, x in _read(path).get("tiles", {}).items()}


@functools.cache
def _read(path: Path) -> Mapping[str, Any]:
    return {str(key): x for key, x in read(path).items()}


def _cases(mechanism: Mechanism, document: Mapping[Any, Any]) -> Iterator[tuple[str, Assignments]]:
    scope = _scope(mechanism)
    plain = {str(key): x for key, x in document.items()}
    for name, text in plain["cases"].items():
        yield str(name), _assigned(text, scope)
    for name, parts in plain.get("far", {}).items():
        yield str(name), _assigned({str(key): x for key, x in parts.items()}["case"], scope)
    factors = [[_assigned(level, scope) for level in levels] for levels in plain["factors"].values()]
    fits = Expression(str(plain["fits"]), scope, claim=True)

    def fitting(row: Sequence[int]) -> bool:
        return bool(np.all(fits(_Sizes(mechanism, _merged(factors, row)))))

    for number, row in enumerate(covering([len(levels) for levels in factors], fitting, int(plain["rows"]))):
        yield f"{ROW}{number + 1}", _merged(factors, row)


def covering(levels: Sequence[int], fitting: Any, most: int) -> Iterator[tuple[int, ...]]:
    """Rows of levels that have as many pairs of levels of two factors as they can, of rows that fit."""
    pairs = pairs_of(levels)
    for pair in sorted(pairs, key=scattered):
        if most <= 0:
            return
        if pair not in pairs:
            continue
        i, a, j, b = pair
        best: tuple[int, ...] = ()
        gained: set[tuple[int, int, int, int]] = set()
        for turn in range(TRIED):
            row = [scattered(*pair, turn, k) % n for k, n in enumerate(levels)]
            row[i], row[j] = a, b
            own = {(x, row[x], y, row[y]) for x, y in itertools.combinations(range(len(row)), 2)} & pairs
            if len(own) > len(gained) and fitting(row):
                best, gained = tuple(row), own
        pairs -= gained | {pair}
        if best:
            most -= 1
            yield best


def _merged(factors: Sequence[Sequence[Assignments]], row: Sequence[int]) -> dict[str, Expression]:
    return {name: x for levels, at in zip(factors, row, strict=True) for name, x in levels[at].items()}


def _scope(mechanism: Mechanism) -> Scope:
    words = {word: name for name, own in mechanism.vocabulary.items() for word in own}
    return Scope(frozenset({*mechanism.sizes, *mechanism.inputs, *mechanism.options}), words, draws=True)


def _assigned(text: Any, scope: Scope) -> dict[str, Expression]:
    parts = assignments(str(text), place_of(text))
    return {name: Expression(own, scope, place) for name, (own, place) in parts.items()}


class _Sizes:
    """The sizes and options of a case, each at the first choice of its draws where nothing assigns it."""

    grade: Grade | None = None
    dtype = "float64"

    def __init__(self, mechanism: Mechanism, assigned: Assignments) -> None:
        self.mechanism, self.assigned = mechanism, assigned

    def __getitem__(self, name: str) -> Any:
        own = self.assigned.get(name) or {**self.mechanism.sizes, **self.mechanism.options}[name]
        return own(self)

    def source(self, ordinal: int) -> Source:
        return _First()  # type: ignore[return-value] - a size asks for no arrays

    def word(self, convention: str) -> str:
        raise SpecError(f"{convention} does not apply here")

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        raise SpecError(f"{name} cannot be called here")

    def output(self, name: str, site: CallSite | None) -> Any:
        raise SpecError(f"there is no {name} here")


class _First:
    def pick(self, count: int) -> int:
        return 0


def faults(known: Mapping[str, Mechanism], folder: Path | None = None) -> Iterator[SpecError]:
    """What is wrong with the files of cases, the shipped ones or those of a folder."""
    return faults_beside(
        "serving",
        folder,
        lambda document, stem: _contradictions({str(key): x for key, x in document.items()}, stem, known),
    )


def _contradicting_companies(companies: Mapping[Any, Any], mechanism: Mechanism) -> Iterator[SpecError]:
    for own in _plain(companies).values():
        for name, size in _lengths(own).items():
            if name not in mechanism.inputs or size not in mechanism.sizes:
                yield SpecError(f"lengths: {name} has no lengths along {size}", place_of(own["axis"]))
        if "option" in own and str(own["option"]) not in mechanism.options:
            yield SpecError(f"option: nothing is called {own['option']!s}", place_of(own["option"]))
        if not _lengths(own) and "option" not in own and str(own["axis"]) not in restrictable(mechanism):
            yield SpecError(f"axis: something is computed along {own['axis']!s}", place_of(own["axis"]))
        _assigned(own["case"], _scope(mechanism))


def _contradictions(plain: Mapping[str, Any], stem: str, known: Mapping[str, Mechanism]) -> Iterator[SpecError]:
    operator = str(plain["operator"])
    if operator != stem:
        yield SpecError(f"operator: the file is called {stem!r}, and not {operator!r}", place_of(plain["operator"]))
    if operator not in known or known[operator].operator != operator:
        yield SpecError(f"operator: unknown operator {operator!r}{did_you_mean(operator, known)}")
        return
    mechanism = known[operator]
    names = {*mechanism.sizes, *mechanism.inputs, *mechanism.options}
    yield from _contradicting_companies(plain.get("invariance", {}), mechanism)
    for name, companies in plain.get("further", {}).items():
        further = known.get(str(name))
        if further is None or further.operator != operator or further.name == operator:
            yield SpecError(f"further: {name!s} is no further mechanism of {operator}", place_of(name))
        else:
            yield from _contradicting_companies(companies, further)
    tiles = [_TILE.sub("9", str(text)) for text in plain.get("tiles", {}).values()]
    texts = [
        *tiles,
        *([plain["threads"]] if "threads" in plain else []),
        *plain["cases"].values(),
        *(level for levels in plain["factors"].values() for level in levels),
    ]
    for text in texts:
        for name in assignments(str(text), place_of(text)):
            if name not in names:
                yield SpecError(f"nothing is called {name!r}{did_you_mean(name, names)}", place_of(text))
    for name, parts in plain.get("far", {}).items():
        known_inputs = [str(x) for key, x in parts.items() if str(key) == "numbers"]
        if not set(known_inputs) <= set(mechanism.inputs):
            yield SpecError(f"numbers: nothing is called {known_inputs[0]!r}", place_of(name))
    list(_cases(mechanism, plain))
