"""Failures for which a name was sought in vain, and whether a further one is the same: then none is sought again.

It is the same in another dtype, or in a further mechanism with the same definition, where the subject is wrong on the
same calls by about as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..judging.bench import Bench
from ..judging.cells import Failure
from ..judging.judge import Kind
from ..language.expressions import Expression
from .candidates import stock
from .likeness import Likeness, Nearest
from .observations import Observation

ALIKE = 0.25
"""The share of the largest error of an output by which errors of the same mistake may differ, beyond their bounds."""
MOST = 0.9
"""The share of the wrong calls on which errors are alike."""
WRONG = 2
"""Wrong calls that are compared at least."""


@dataclass(frozen=True, slots=True)
class Erring:
    """By how much each output of a call is off, and its bound, which is zero where the output was right."""

    errors: Mapping[str, Any]
    bounds: Mapping[str, Any]
    right: bool

    def alike(self, other: Erring) -> bool:
        """Whether both are off by about as much."""
        return self.errors.keys() == other.errors.keys() and all(
            _alike(x, other.errors[name], self.bounds[name] + other.bounds[name]) for name, x in self.errors.items()
        )


@dataclass(frozen=True, slots=True)
class Search:
    """A search without a name: what was searched, in how much time, and what comes nearest."""

    among: tuple[Any, ...]
    times: float
    calls: Mapping[tuple[str, str], Erring]
    nearest: Nearest | None


@dataclass(slots=True)
class Sought:
    """The searches for the name of one subject's failures in which none was found."""

    searches: list[Search] = field(default_factory=list)

    def keep(
        self,
        bench: Bench,
        failure: Failure,
        observations: Sequence[Observation],
        times: float,
        found: Likeness | Nearest | None,
    ) -> None:
        """Take note of a search, which took so many `times` as long as usual at most."""
        if not isinstance(found, Likeness) and _comparable(failure):
            self.searches.append(Search(_among(bench), times, _calls(observations), found))

    def before(
        self, bench: Bench, failure: Failure, observations: Sequence[Observation], times: float
    ) -> Search | None:
        """The search for the name of the same failure that took no less time, if there was one."""
        among = _among(bench) if self.searches and _comparable(failure) else ()
        possible = [one for one in self.searches if one.among == among and one.times >= times]
        calls = _calls(observations) if possible else {}
        own = {(bench.mechanism.name, sample.case.key) for sample in (failure.sample, failure.found)}
        return next((one for one in possible if _same(calls, one.calls, own)), None)


def _comparable(failure: Failure) -> bool:
    """Whether a failure is one of wrong results that are returned again and again."""
    return failure.outcome.kind is Kind.REFUTED and not failure.law.startswith("contract.") and not failure.dependent


def _among(bench: Bench) -> tuple[Any, ...]:
    """What decides what a name is sought among, and on which calls."""
    m = bench.mechanism
    known = frozenset((_texts(candidate.changes), *candidate.words.items()) for candidate in stock(bench))
    return m.operator, _texts(m.definition), bench.words_key, known


def _texts(lines: Mapping[str, Expression]) -> frozenset[tuple[str, str]]:
    return frozenset((line, expression.text) for line, expression in lines.items())


def _calls(observations: Sequence[Observation]) -> dict[tuple[str, str], Erring]:
    """How the cases err that were looked at, apart from further calls of laws."""
    return {(o.mechanism.name, o.trial.sample.case.key): _erring(o) for o in observations if not o.settled.key}


def _erring(observation: Observation) -> Erring:
    exact, wrong = observation.exact, observation.wrong
    with np.errstate(all="ignore"):
        fit = {name for name, y in observation.outputs.items() if np.shape(y) == np.shape(exact.values[name])}
        errors = {
            name: np.asarray(y, float) - np.asarray(exact.values[name], float) if name in fit else np.asarray(y, float)
            for name, y in observation.outputs.items()
        }
    bounds = {name: exact.radius(name) if name in wrong and name in fit else 0.0 for name in errors}
    return Erring(errors, bounds, not wrong)


def _alike(x: Any, y: Any, bound: Any) -> bool:
    """Whether errors are about the same, and not numbers at the same entries."""
    if x.shape != y.shape or not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return False
    known = np.isfinite(x)
    most = max(np.max(np.abs(one), where=known, initial=0.0) for one in (x, y))
    with np.errstate(all="ignore"):
        return bool(np.all(~known | ~(np.abs(x - y) > ALIKE * most + bound)))


def _same(
    calls: Mapping[tuple[str, str], Erring], before: Mapping[tuple[str, str], Erring], own: set[tuple[str, str]]
) -> bool:
    """Whether wrong calls err as they did before; those of the failing case may be new."""
    if any(not one.right and key not in before and key not in own for key, one in calls.items()):
        return False
    shared = [(one, before[key]) for key, one in calls.items() if key in before]
    wrong = [(one, other) for one, other in shared if not (one.right and other.right)]
    return len(wrong) >= WRONG and sum(one.alike(other) for one, other in wrong) >= MOST * len(wrong)
