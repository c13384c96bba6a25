"""Possible explanations of a failure: known mistakes, other conventions, two of them together, faulty functions.

The suite's own faulty functions are what no changed line of a definition expresses, such as tiles and state.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attnspec.adapters import Adapter
from attnspec.adapters.faults.whole import OTHERWISE

from ..judging.bench import Bench
from ..language.expressions import Expression
from ..mechanisms.mechanism import Mechanism, Mistake
from ..subjects.registered import faults
from ..subjects.subject import AdapterSubject, Subject
from ..subjects.targets import subject
from .clock import loading
from .conditions import Condition
from .places import Place, placed_lines


@dataclass(frozen=True, slots=True)
class Changed:
    """A line of a definition with one part of it changed; or an input or option that is taken for something else."""

    line: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A mistake, another word of a convention, or a faulty function; or, of two `parts`, both of them."""

    name: str
    says: str
    changes: Mapping[str, Expression] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    """The words that differ from those that the subject is taken to follow."""
    parts: tuple[Candidate, ...] = ()
    function: Subject | None = None
    """What is called where nothing of a definition is changed."""
    changed: tuple[Changed, ...] = ()
    """Of what is not known by a name, the lines that it changes."""
    where: Condition | None = None
    """Of what is not made everywhere, the condition on calls on which it is."""
    dense: tuple[str, ...] = ()
    """Of inputs that are read as if they were contiguous, these."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that have these values whatever a call says."""
    only: tuple[str, ...] = ()
    """Of what shows in some outputs alone, these."""
    each: Mapping[str, Candidate] = field(default_factory=dict)
    """Of what is something else in each of several outputs, these."""
    place: Place | None = None
    """Of what shows at some positions of an axis alone, these."""
    at: str = ""
    """Words behind the lines that an edit changes: where along an axis it changes them."""
    within: Condition | None = None
    """The condition on calls beyond which nothing is said."""
    shown: Callable[[], tuple[Changed, ...]] | None = None
    """Of an edit, what makes short of the lines that it changes, which is dear for all of them."""

    def told(self) -> Candidate:
        """The same with changed lines as they are shown, and a name of these."""
        if self.shown is None:
            return self
        changed = self.shown()
        return replace(self, name=f"{described(changed)} {self.at}".strip(), changed=changed, shown=None)

    def placed(self, place: Place) -> Candidate:
        """The same where it shows at some positions of an axis of outputs alone."""
        return replace(self, name=f"{self.name} {place.words}", says=self._says(place), place=place, at=place.words)

    def along(self, m: Mechanism, place: Place) -> Candidate | None:
        """The same with lines that are changed at some positions of an axis; None where that has no meaning."""
        made = placed_lines(m, self.changes, place) if self.changes else None
        if made is None:
            return None
        return replace(self, name=f"{self.name} {place.words}", says=self._says(place), changes=made, at=place.words)

    def _says(self, place: Place) -> str:
        return f"{self.says}, {place.words}" if self.changed else self.says

    def joins(self, other: Candidate) -> bool:
        """Whether both can be made at once: they change different lines, and words of different conventions."""
        if any(
            one.function is not None
            or one.where is not None
            or one.only
            or one.dense
            or one.options
            or one.place
            or one.at
            or one.each
            for one in (self, other)
        ):
            return False
        return not (self.changes.keys() & other.changes.keys() or self.words.keys() & other.words.keys())

    def joined(self, other: Candidate) -> Candidate:
        """Both at once, a convention last."""
        first, second = sorted((self, other), key=lambda part: bool(part.words))
        changes, words = {**first.changes, **second.changes}, {**first.words, **second.words}
        return Candidate(f"{first.name} and {second.name}", first.says, changes, words, (first, second))


def anywhere(name: str) -> str:
    """A name without the mechanism that has it, a pair without those of its parts: the same wherever it is known."""
    return " and ".join(part.partition(".")[2] or part for part in name.split(" and "))


def described(changed: Iterable[Changed]) -> str:
    """Changed lines as a name."""
    return " and ".join(f"{one.line}: {one.before} -> {one.after}" for one in changed)


def stock(bench: Bench) -> Iterator[Candidate]:
    """Other words of conventions, then the mistakes of the mechanism, of its operator, and of its kin, each once."""
    m = bench.mechanism
    for convention, words in m.conventions.items():
        for word, says in words.items():
            if word != bench.words[convention]:
                yield other_word(convention, word, says)
    operator = m.stating
    kin = [m, operator, *m.kin]
    names: dict[frozenset[tuple[str, str]], str] = {}
    for mechanism in (operator, *kin):  # what several of them have goes by the operator's name
        for mistake in mechanism.mistakes.values():
            names.setdefault(_change(mistake), mechanism.address(mistake.name))
    for mechanism in kin:
        for mistake in mechanism.mistakes.values():
            name = names.pop(_change(mistake), None)
            if name is not None:
                yield Candidate(name, mistake.says, mistake.change)


def other_word(convention: str, word: str, says: str) -> Candidate:
    """Another word of a convention."""
    return Candidate(f"{convention} = {word}", says, words={convention: word})


def faulty(bench: Bench, tiled: bool = False) -> Iterator[Candidate]:
    """The faulty functions of the operator, as far as their framework is available, on request those of tiles first.

    They are the suite's own, and called in this process: workers are for what is not.
    """
    known = _faults(bench)
    for name, adapter in sorted(known, key=lambda one: not vars(one[1].function).get(OTHERWISE)) if tiled else known:
        yield Candidate(name, adapter.summary, function=_called(name))


def resized(bench: Bench) -> Iterator[Candidate]:
    """Those of the faulty functions that are made of tiles, with tiles of other sizes."""
    for name, adapter in _faults(bench):
        for size in vars(adapter.function).get(OTHERWISE, {}):
            yield Candidate(f"{name} with {size}", adapter.summary, function=_called_with(name, size))


@functools.cache
def _called(name: str) -> AdapterSubject:
    """A faulty function as a subject, made once."""
    with loading():
        return subject(faults()[name])


@functools.cache
def _called_with(name: str, size: str) -> AdapterSubject:
    """The same with tiles of another size, which takes what the other does."""
    other = copy.copy(_called(name))
    made = vars(other.adapter.function)[OTHERWISE][size]()
    other.adapter = replace(other.adapter, name=f"{name} with {size}", function=made)
    other.name = other.adapter.name
    other.hand(other.adapter.framework)
    return other


def _faults(bench: Bench) -> Iterator[tuple[str, Adapter]]:
    for name, adapter in faults().items():
        if (
            adapter.operator == bench.mechanism.operator
            and bench.dtype in adapter.dtypes
            and importlib.util.find_spec(adapter.framework)
        ):
            yield name, adapter


def _change(mistake: Mistake) -> frozenset[tuple[str, str]]:
    return frozenset((line, expression.text) for line, expression in mistake.change.items())
