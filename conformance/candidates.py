"""What may be wrong with a subject: known mistakes, other words of conventions, and two of them together.

A candidate is run as the definition with changed lines, on the very calls that the subject has answered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from . import limits
from .definition import Frame, reached
from .errors import SpecError
from .grades import LADDER
from .judge import Kind, definition_law, judged
from .language import Expression
from .loader import library
from .mechanism import Mechanism, Mistake
from .stand_ins import differs
from .trial import Bench, Declined, Faulted, Settled, Trial

AGREEMENT = {"float64": 1e-6, "float32": 1e-4, "bfloat16": 2.0**-5, "float16": 2.0**-8}
"""Outputs agree when they differ by no more than this share of the largest entry."""
FINE = 1 / 32
"""The part of it that is allowed where the subject is wrong by less."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A mistake or another word of a convention; or, of two `parts`, both of them."""

    name: str
    says: str
    changes: Mapping[str, Expression] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    """The words that differ from those that the subject is taken to follow."""
    parts: tuple[Candidate, ...] = ()

    def joins(self, other: Candidate) -> bool:
        """Whether both can be made at once: they change different lines, and words of different conventions."""
        return not (self.changes.keys() & other.changes.keys() or self.words.keys() & other.words.keys())

    def joined(self, other: Candidate) -> Candidate:
        """Both at once, a convention first."""
        first, second = sorted((self, other), key=lambda part: not part.words)
        changes, words = {**first.changes, **second.changes}, {**first.words, **second.words}
        return Candidate(f"{first.name} and {second.name}", first.says, changes, words, (first, second))


def stock(bench: Bench) -> Iterator[Candidate]:
    """Other words of conventions, then the mistakes of the mechanism, of its operator, and of its kin, each once."""
    m = bench.mechanism
    for convention, words in m.conventions.items():
        for word, says in words.items():
            if word != bench.words[convention]:
                yield Candidate(f"{convention} = {word}", says, words={convention: word})
    operator = library().get(m.operator, m)
    kin = [m, operator, *(k for k in library().values() if k.operator == m.operator)]
    names: dict[frozenset[tuple[str, str]], str] = {}
    for mechanism in (operator, *kin):  # what several of them have goes by the operator's name
        for mistake in mechanism.mistakes.values():
            names.setdefault(_change(mistake), mechanism.address(mistake.name))
    for mechanism in kin:
        for mistake in mechanism.mistakes.values():
            name = names.pop(_change(mistake), None)
            if name is not None:
                yield Candidate(name, mistake.says, mistake.change)


def _change(mistake: Mistake) -> frozenset[tuple[str, str]]:
    return frozenset((line, expression.text) for line, expression in mistake.change.items())


class Stance(Enum):
    """How a candidate stands to what a subject returned on a call."""

    SILENT = "silent"
    """It gives what the definition gives, and so does the subject."""
    AGREES = "agrees"
    """It tells itself from the definition, and the subject with it."""
    DIFFERS = "differs"


class Observation:
    """One call, as the definition and candidates have it, and as the subject answers it, which is asked when needed."""

    def __init__(
        self, trial: Trial, settled: Settled, tolerance: float, names: Collection[str] = (), *, bounded: bool = False
    ) -> None:
        """With `names`, only these outputs are looked at; they agree within the tolerance times the largest entry.

        Where `bounded`, what keeps the bound of the definition is right as well: entries that cancel each other may be
        far off by the tolerance, and no mistake is needed to explain them.
        """
        self.trial, self.settled, self.tolerance, self.bounded = trial, settled, tolerance, bounded
        self.mechanism, self.dtype = trial.mechanism, trial.bench.dtype
        self.names = [n for n in self.mechanism.outputs if n not in self.mechanism.random and (not names or n in names)]
        self.entries = trial.sample.entries

    def answered(self) -> bool:
        """Ask the subject; whether it has returned something to compare."""
        try:
            reply = self.trial.reply(self.settled)
            self.names = [name for name in self.names if name in reply.outputs]
            return bool(self.names and self.exact)
        except (Declined, Faulted, SpecError):
            return False

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """What the subject returned."""
        returned = self.trial.reply(self.settled).outputs
        return {name: returned[name] for name in self.names}

    @cached_property
    def exact(self) -> dict[str, Any]:
        """What the definition gives."""
        return {name: np.asarray(self.trial.exact(name, self.settled)) for name in self.names}

    @cached_property
    def right(self) -> bool:
        """Whether the subject returned what the definition gives."""
        return self.alike(self.exact, self.outputs) or (self.bounded and self.held)

    @cached_property
    def held(self) -> bool:
        """Whether the subject keeps the bound of the definition."""
        bench = self.trial.bench
        grade = bench.subject.claims.grade(bench.dtype)
        return judged(self.trial, definition_law(self.mechanism), [grade], weighed=False).kind is Kind.HELD

    def stance(self, candidate: Candidate) -> Stance:
        """Where a candidate cannot be run, it differs: the subject has answered."""
        version = self.version(candidate)
        if version is None:
            return Stance.DIFFERS
        if not version:
            return Stance.SILENT if self.right else Stance.DIFFERS
        tells = self.tells(candidate)
        if self.alike(version, self.outputs):
            return Stance.AGREES if tells else Stance.SILENT
        return Stance.DIFFERS if tells or not self.right else Stance.SILENT

    def tells(self, candidate: Candidate) -> bool:
        """Whether a candidate gives something else than the definition."""
        version = self.version(candidate)
        return version is None or (bool(version) and not self.alike(version, self.exact))

    def apart(self, one: Candidate, other: Candidate) -> bool:
        """Whether two candidates give different outputs."""
        first, second = self.version(one), self.version(other)
        if first is None or second is None:
            return first is not second
        return not self.alike(first or self.exact, second or self.exact)

    def alike(self, xs: Mapping[str, Any], ys: Mapping[str, Any]) -> bool:
        """Whether two sets of outputs agree."""
        return all(self._alike(name, xs[name], ys[name]) for name in self.names)

    def _alike(self, name: str, x: Any, y: Any) -> bool:
        exact = self.exact[name]
        if np.shape(x) != np.shape(y):
            return False
        if name in self.mechanism.normal_form and np.shape(x) == np.shape(exact):
            with limits.metered():
                x, y, exact = (np.asarray(self.trial.normal(name, z)) for z in (x, y, exact))
        x, y = np.asarray(x, float), np.asarray(y, float)
        free = np.isnan(exact) if np.shape(x) == np.shape(exact) else False
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(np.where(np.isfinite(x), x, 0.0)), initial=0.0)
            near = (x == y) | (np.abs(x - y) <= self.tolerance * scale)
            return bool(np.all(near | (np.isnan(x) & (np.isnan(y) | free))))

    def version(self, candidate: Candidate) -> dict[str, Any] | None:
        """What a candidate gives: nothing where it gives what the definition gives, None where it cannot be run."""
        key = (
            "candidate",
            self.mechanism.name,
            candidate.name,
            *self.names,
            self.trial.bench.words_key,
            self.settled.key,
        )
        if key not in self.trial.cache:
            try:
                self.trial.cache[key] = self._run(candidate)
            except (SpecError, ValueError, IndexError, TypeError, ArithmeticError):
                self.trial.cache[key] = None
        return self.trial.cache[key]

    def _run(self, candidate: Candidate) -> dict[str, Any]:
        words = {**self.trial.bench.words, **candidate.words}
        base = self._unchanged(words)
        changes = candidate.changes
        frame = Frame(
            self.mechanism,
            base.values,
            changes=changes,
            overflow=LADDER[self.dtype][0].arithmetic,
            unchanged=base,
            reached=_reached(self.mechanism, frozenset(changes)),
        )
        if not candidate.words and not differs(frame, base):
            return {}
        return {name: np.asarray(x) for name, x in frame.outputs(*self.names).items()}

    def _unchanged(self, words: Mapping[str, str]) -> Frame:
        key = ("unchanged", self.mechanism.name, tuple(words.values()), self.settled.key)
        if key not in self.trial.cache:
            overflow = LADDER[self.dtype][0].arithmetic
            self.trial.cache[key] = Frame(self.mechanism, {**self.settled.values, **words}, overflow=overflow)
        return self.trial.cache[key]


_REACHED: dict[tuple[str, str, frozenset[str]], frozenset[str]] = {}


def _reached(mechanism: Mechanism, changed: frozenset[str]) -> frozenset[str]:
    """What changes of some lines may give another value."""
    key = (mechanism.name, mechanism.digest, changed)
    if key not in _REACHED:
        _REACHED[key] = reached(mechanism, changed)
    return _REACHED[key]
