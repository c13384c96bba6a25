"""Evaluating the definition of a mechanism: its lines, each when first asked for, on the inputs of one call.

The same frame serves three purposes.
Without a grade it gives exact float64 values; under a grade, values with the error that the grade allows; with the
changes of a mistake, what an implementation with that mistake returns.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import SpecError
from ..language.draws import Source
from ..language.expressions import Expression
from ..language.scopes import CallSite
from ..numerics import budget
from ..numerics.formats import FLOAT64, Format
from ..numerics.grades import Grade
from ..numerics.numbers import Number, value
from ..numerics.ranges import in_range, ranged
from .called import Answer, Called, key_of
from .mechanism import Mechanism
from .references import by_reference


class Frame:
    """One evaluation. Names resolve to inputs, options, sizes, conventions and lines; lines are kept once computed."""

    def __init__(
        self,
        mechanism: Mechanism,
        values: Mapping[str, Any],
        *,
        grade: Grade | None = None,
        dtype: str = "float64",
        changes: Mapping[str, Expression] | None = None,
        overflow: Format | None = None,
        unchanged: Frame | None = None,
        reached: Collection[str] = (),
    ) -> None:
        """`values` has inputs and options, and the words of conventions; what is left out is at its default.

        `changes` are by name; those of an operator that is called, or that one of these calls, as `operator.name`.
        With `overflow`, lines, exponentials and sums are in the range of that format, as they would be in a kernel.
        `unchanged` is the same evaluation without the changes, from which every name is taken that is not `reached`.
        Raises `SpecError` where the shapes of the inputs contradict one another.
        """
        self.mechanism, self.grade, self.dtype = mechanism, grade, dtype
        self.changes, self.overflow = changes or {}, None if overflow is FLOAT64 else overflow
        self.unchanged, self.reached = unchanged, reached
        self.given = unchanged.given if unchanged is not None else self._bound(values)
        """What names mean that are no lines, without the errors of a grade."""
        self.values = self.given
        if grade is not None:
            self.values = self.given | {name: _graded(self.given.get(name), grade) for name in mechanism.inputs}
        self.memo: dict[str, Any] = {}
        if unchanged is not None:
            self.memo = {name: x for name, x in unchanged.memo.items() if name not in reached}
        self.held = 0
        """The bytes of the lines that are in the memo."""
        self.turned_on: set[str] = set()
        """The conventions whose word was asked for so far."""
        self._busy: list[str] = []

    def _bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        bound = {**self.mechanism.words, **self.mechanism.defaults, **values}
        return bound | sizes_of(self.mechanism, bound)

    def on(self, values: Mapping[str, Any]) -> Frame:
        """The same evaluation of other values, with all lines that do not depend on what differs from those of this.

        Lines of this one are computed in it when they are asked for; they are what they would be anyway, to the bit.
        """
        m = self.mechanism
        other = Frame(m, values, grade=self.grade, dtype=self.dtype, overflow=self.overflow)
        own, others = self.given, other.given
        known = own.keys() & others.keys()
        names = frozenset((own.keys() ^ others.keys()) | {n for n in known if not one_and_the_same(own[n], others[n])})
        # which lines depend on a word is known only when they ask for it, and of a reference nothing is known
        if m.by_reference or not names.isdisjoint({*m.conventions, *m.vocabulary}):
            return other
        other.unchanged, other.reached = self, reached_by(m, names)
        other.memo = {name: x for name, x in self.memo.items() if name not in other.reached}
        return other

    @property
    def words_asked(self) -> set[str]:
        """The conventions whose word was asked for so far, here or where lines were taken from."""
        return self.turned_on if self.unchanged is None else self.turned_on | self.unchanged.words_asked

    def __getitem__(self, name: str) -> Any:
        memo = self.memo
        if name in memo:
            return memo[name]
        if self.unchanged is not None and name not in self.reached:
            result = memo[name] = self.unchanged[name]
            return result
        change = self.changes.get(name)
        if change is None and name not in self.mechanism.definition:  # what is given, as most names are
            result = memo[name] = self.original(name)
            return result
        if name in self._busy:
            raise SpecError(f"a cycle: {' -> '.join([*self._busy, name])}")
        self._busy.append(name)
        try:
            result = self._within_range(name, change) if self.overflow is not None else self._evaluated(name, change)
        finally:
            self._busy.pop()
        if name not in self.values:
            line = self.mechanism.definition.get(name)
            self.held += getattr(result, "nbytes", 0)
            budget.hold(self.held, line and line.place)
        memo[name] = result
        return result

    def _evaluated(self, name: str, change: Expression | None) -> Any:
        return self.original(name) if change is None else change(_Replacing(self, name))

    def _within_range(self, name: str, change: Expression | None) -> Any:
        assert self.overflow is not None
        with ranged(self.overflow):
            result = self._evaluated(name, change)
        return in_range(result, self.overflow) if name in self.mechanism.definition else result

    def original(self, name: str) -> Any:
        """What a name means before any change."""
        line = self.mechanism.definition.get(name)
        if line is not None:
            if self.grade is None or name not in self.mechanism.unstored:
                return line(self)
            return _graded(line(_Unstored(self, self.grade)), self.grade)
        if self.mechanism.by_reference and name in self.mechanism.outputs:
            return self.referred[name]
        if name in self.values:
            if name in self.mechanism.conventions:
                self.turned_on.add(name)
            return self.values[name]
        raise SpecError(f"{name!r} has no value here")

    @property
    def nbytes(self) -> int:
        """About how many bytes all lines will hold, of which one in eight is as large as the largest input."""
        largest = max((np.size(value(self.values[name])) for name in self.mechanism.inputs), default=0)
        parts = 1 if self.grade is None else 4
        return 8 * parts * largest * (1 + len(self.mechanism.definition) // 8)

    def check_domain(self) -> None:
        """Raise `SpecError` for a call outside the domain of the operator."""
        with np.errstate(all="ignore"), budget.metered():
            for name, condition in self.mechanism.domain.items():
                if not bool(np.all(condition(self))):
                    raise SpecError(f"outside the domain, {name}: {condition.text}")

    def outputs(self, *names: str) -> dict[str, Any]:
        """The outputs by name, all of them if none is named."""
        names = names or self.mechanism.outputs
        with np.errstate(all="ignore"), budget.metered():
            return {name: self[name] for name in names}

    @functools.cached_property
    def referred(self) -> dict[str, Any]:
        """The outputs as the reference gives them, where it is the definition."""
        return by_reference(
            self.mechanism, {name: self[name] for name in self.values}, self.mechanism.outputs, self.grade
        )

    # What else an environment can do

    def word(self, convention: str) -> str:
        self.turned_on.add(convention)
        return self.values[convention]

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        mechanism = self.mechanism.beside(name)
        passed_on = {c: self.values[c] for c in mechanism.conventions if c in self.values and c not in arguments}
        arguments = {**passed_on, **arguments}
        changes = within(self.changes, mechanism)
        key = None if mechanism.by_reference or changes else key_of(name, self.grade, self.dtype, arguments)
        known = self.mechanism.kept(Called)
        if key is not None and (found := known.get(key)) is not None:
            budget.spend(found.work)
            known.move_to_end(key)
            self.turned_on.update(found.asked & passed_on.keys())
            return found.result
        before = budget.unspent()
        inner = Frame(mechanism, arguments, grade=self.grade, dtype=self.dtype, changes=changes)
        with budget.waiting(self.held), ranged(None):  # for the result is kept for any other evaluation
            result = inner[mechanism.outputs[0]]
        if key is not None:
            known.put(key, Answer(result, frozenset(inner.turned_on), before - budget.unspent()))
        self.turned_on.update(inner.turned_on & passed_on.keys())
        return result

    def output(self, name: str, site: CallSite | None) -> Any:
        raise SpecError(f"{name} is what a subject returns, which a definition cannot use")

    def source(self, ordinal: int) -> Source:
        raise SpecError("a definition cannot draw")


class _Replacing:
    """The environment of a change: the name that it replaces has its original meaning, and no other name has."""

    def __init__(self, frame: Frame, name: str) -> None:
        self.frame, self.name = frame, name
        self.grade, self.dtype = frame.grade, frame.dtype
        self.word, self.operator, self.output, self.source = frame.word, frame.operator, frame.output, frame.source

    def __getitem__(self, name: str) -> Any:
        return self.frame.original(name) if name == self.name else self.frame[name]


class _Unstored:
    """The environment of a line with a dtype of its own: nothing in it is stored in the dtype under test."""

    def __init__(self, frame: Frame, grade: Grade) -> None:
        self.frame, self.dtype = frame, frame.dtype
        self.grade: Grade | None = replace(grade, operand=None, weight=None, stored=None)
        self.word, self.operator, self.output, self.source = frame.word, frame.operator, frame.output, frame.source

    def __getitem__(self, name: str) -> Any:
        return self.frame[name] if self.grade is None else _graded(self.frame[name], self.grade)


def reached(mechanism: Mechanism, changes: Collection[str]) -> frozenset[str]:
    """The names that changes may give another value: those that are changed, and every line that reads one of them."""
    found = {name for name in changes if "." not in name}
    if mechanism.by_reference:
        found.update(mechanism.outputs)
    inner = {name.partition(".")[0] for name in changes} - found
    if inner:
        touched = {one for one in called_by(mechanism) if {one, *called_by(mechanism.beside(one))} & inner}
        found |= {name for name, line in mechanism.definition.items() if line.calls & touched}
    while True:
        further = {name for name, line in mechanism.definition.items() if name not in found and line.uses & found}
        if not further:
            return frozenset(found)
        found |= further


class Reached(dict[tuple[str, str, frozenset[str]], frozenset[str]]):
    """What names reach, by mechanism."""


def reached_by(mechanism: Mechanism, names: frozenset[str]) -> frozenset[str]:
    """As `reached`, and once for all evaluations."""
    known, key = mechanism.kept(Reached), (mechanism.name, mechanism.digest, names)
    if key not in known:
        known[key] = reached(mechanism, names)
    return known[key]


def one_and_the_same(x: Any, y: Any) -> bool:
    """Whether two values are one, or equal single ones of one type; of equal arrays it is not asked."""
    return x is y or (type(x) is type(y) and type(x) in _SINGLE and x == y)


_SINGLE = frozenset((bool, int, float, str))


class CalledBy(dict[str, frozenset[str]]):
    """Which operators the definitions of a library call."""


def called_by(mechanism: Mechanism) -> frozenset[str]:
    """The operators that a definition calls, and those that their definitions call."""
    known = mechanism.kept(CalledBy)
    if mechanism.name not in known:
        own = {name for line in mechanism.definition.values() for name in line.calls}
        known[mechanism.name] = frozenset(own.union(*(called_by(mechanism.beside(name)) for name in own)))
    return known[mechanism.name]


def within(changes: Mapping[str, Expression], operator: Mechanism) -> dict[str, Expression]:
    """Those of the changes that are of an operator, by its own names, and those of operators that it calls."""
    if not any("." in name for name in changes):
        return {}
    calls = called_by(operator)
    found = {}
    for name, change in changes.items():
        home, _, own = name.rpartition(".")
        if home == operator.name:
            found[own] = change
        elif home in calls:
            found[name] = change
    return found


def _graded(x: Any, grade: Grade) -> Any:
    if isinstance(x, Number):
        return Number(x.value, x.worst, x.variance, x.shared, grade=grade)
    return Number(x, grade=grade) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def sizes_of(mechanism: Mechanism, values: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that the shapes of the required inputs fix; inputs that contradict one another are a `SpecError`."""
    found: dict[str, tuple[int, str]] = {}
    for name, axes in mechanism.shapes.items():
        x = values[name]
        shape = x.shape if isinstance(x, (Number, np.ndarray)) else np.shape(x)
        for axis, length in zip(reversed(axes), reversed(shape), strict=False):
            if axis is None:
                continue
            known, where = found.setdefault(axis, (length, name))
            if known != length:
                raise SpecError(f"{axis} is {known} in {where}, but {length} in {name}")
    return {axis: length for axis, (length, _) in found.items()}


def refused(mechanism: Mechanism, values: Mapping[str, Any]) -> str | None:
    """Why a call lies outside the domain of the mechanism, or None where it lies inside."""
    try:
        frame = Frame(mechanism, values)
        frame.check_domain()
        frame.outputs()
    except (SpecError, ValueError) as error:
        return str(error).splitlines()[0]
    return None
