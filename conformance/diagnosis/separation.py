"""Under which condition a subject is wrong: learned on the cases that were run, then tested on cases drawn for that.

Cases are drawn on both sides of a condition: wrong ones are moved out of it, one literal at a time, and fresh ones are
moved into it.
The number in a threshold is found by bisection.
A case that speaks against the condition has it learned anew.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.bounds import Stray
from ..judging.cells import Failure, Result, law_of
from ..judging.judge import Kind, definition_law, judged
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from ..mechanisms.mechanism import Law
from ..numerics.grades import looser
from .conditions import Condition, Fit, Literal, fitting
from .facts import Facts, facts_of
from .maps import place_of
from .observations import Observation
from .steering import EXPLAINED_ENTRIES, imposed, roomy, sized, steered
from .weights import bounded

TRIES = 64
"""Cases that are drawn for the tests of conditions."""
SECONDS = 0.6
"""CPU time of this process after which no further one is drawn."""
PATIENCE = 4.0
"""Seconds in which they are answered."""
WRONG = 3
"""Wrong cases that are moved out of a condition."""
FRESH = 8
"""Fresh cases that are moved into a condition, and as many that are taken as they come."""
REMAINDERS = 8
"""Sizes beside a wrong one that are tried for a remainder."""
PLACES = 3
"""Wrong cases on which the same entries are wrong where that is told."""
SEVERAL = 3
"""Indices of an axis from which on a pattern along it has one wording."""
LEAST = 3
"""Right cases on which a condition does not hold, at least."""


@dataclass(frozen=True, slots=True)
class When:
    """A condition on which a subject is wrong, and without which it is right."""

    condition: Condition
    dtype: str
    wrong: int
    """Wrong cases on which it holds."""
    inside: int
    """Cases on which it holds."""
    outside: int
    """Cases on which it does not hold, on all of which the subject is right."""
    tested: bool
    """Whether it stood on everything that was drawn against it."""
    right_in: tuple[str, ...] = ()
    """The other dtypes in which the subject is right on such cases, if it is wrong in none of them."""
    at: str = ""
    """Which entries of the first output are wrong, in words, if they are the same ones on several cases."""


@dataclass(slots=True)
class Point:
    """A case, and whether the subject is wrong on it."""

    sample: Sample
    wrong: bool
    facts: Facts
    plain: Facts
    """The facts without those options and inputs that make no difference on the case."""
    moot: set[str] = field(default_factory=set)
    """Options and inputs that were looked at for that."""


def separated(
    bench: Bench,
    failure: Failure,
    result: Result,
    seed: int,
    *,
    observations: Sequence[Observation] = (),
    deadline: float | None = None,
) -> When | None:
    """The condition under which the subject is wrong; None where none was found.

    `observations` are of cases of further mechanisms of the operator.
    No case is begun after the `deadline`, of the clock `time.monotonic`.
    """
    kind = failure.outcome.kind
    told = [(sample, found) for sample, found in result.outcomes if found in (kind, Kind.HELD)]
    law = definition_law(bench.mechanism)
    if all(found is Kind.HELD for _, found in told):
        law, told = law_of(bench.mechanism, failure.law) or law, [(failure.found, kind)]
    if law.name == failure.law and failure.sample.key != failure.found.key:
        told.append((failure.sample, kind))
    points = [point_of(sample, wrong=found is kind) for sample, found in told]
    if law.name == "definition" and kind is Kind.REFUTED:
        further = (o for o in observations if o.mechanism is not bench.mechanism and not o.settled.key)
        points += [point_of(o.trial.sample, wrong=not o.right) for o in further]
    if not any(point.wrong for point in points):
        return None
    return Separation(bench, law, kind, result, points, seed, deadline).when()


def point_of(sample: Sample, *, wrong: bool) -> Point:
    facts = facts_of(sample)
    return Point(sample, wrong, facts, facts)


class Separation:
    """The search for a condition."""

    def __init__(
        self,
        bench: Bench,
        law: Law,
        kind: Kind,
        result: Result,
        points: Sequence[Point],
        seed: int,
        deadline: float | None,
    ) -> None:
        self.bench, self.law, self.kind, self.grades, self.seed = bench, law, kind, result.grades, seed
        self.points = [*points]
        self.tries, self.started, self.cpu = 0, time.monotonic(), time.process_time()
        self.deadline = min(deadline or math.inf, self.started + PATIENCE)
        self.known = {point.sample.key for point in points}
        self.moved: dict[tuple[Any, ...], Sample | None] = {}
        self.turned: set[tuple[Any, ...]] = set()
        """The literals without which wrong cases were tried."""
        self.untested: set[tuple[Any, ...]] = set()
        """The literals that no wrong case can be without, so that nobody knows what they have to do with it."""

    def when(self) -> When | None:
        """The condition that stands, or the last one that was found before the budget was spent."""
        fit = self.fit()
        while fit is not None:
            told = [*filter(None, map(self.tried, self.while_it_stands(fit.condition)))]
            if self.spent:
                return self.told(fit, tested=False)
            if not told or not self.speaks_against(told[-1], fit.condition):
                idle = [one.key for one in fit.condition.literals if one.key not in self.turned]
                if not idle:
                    return self.told(fit, tested=True)
                self.untested.update(idle)
            fit = self.fit()
        return None

    def while_it_stands(self, condition: Condition) -> Iterator[Sample]:
        """The tests of a condition, until one speaks against it or the budget is spent."""
        for sample in self.tests(condition):
            if self.spent:
                return
            count = len(self.points)
            yield sample
            if len(self.points) > count and self.speaks_against(self.points[-1], condition):
                return

    @property
    def spent(self) -> bool:
        return (
            self.tries >= TRIES
            or time.monotonic() > self.deadline
            or time.process_time() - self.cpu > SECONDS
            or self.bench.faults["hung"] > 0
        )

    def told(self, fit: Fit, *, tested: bool) -> When | None:
        holds = fit.condition.holds
        wrong = sum(point.wrong for point in self.points)
        inside = wrong + sum(not point.wrong and holds(point.plain) for point in self.points)
        outside = sum(not point.wrong and not holds(point.facts) for point in self.points)
        if fit.condition.literals and outside < LEAST:
            return None
        more = self.law.name == "definition" and self.kind is Kind.REFUTED and not self.spent
        right_in = self.right_in() if more else ()
        return When(
            fit.condition, self.bench.dtype, wrong, inside, outside, tested, right_in, self.place() if more else ""
        )

    # Learning

    def fit(self) -> Fit | None:
        wrong = [point.facts for point in self.points if point.wrong]
        right = [point for point in self.points if not point.wrong]
        for point in right:
            self.simplify(point, wrong)
        return fitting(wrong, [point.plain for point in right], without=self.untested)

    def simplify(self, point: Point, wrong: Sequence[Facts]) -> None:
        """Take from the facts of a right case what makes no difference there, if all wrong cases have it."""
        for name, given in point.facts.given.items():
            if given and name not in point.moot and all(facts.given.get(name) for facts in wrong):
                point.moot.add(name)
                if self.idle(point.sample, name):
                    point.plain = replace(point.plain, given={**point.plain.given, name: False})
        for name, x in point.facts.options.items():
            if x is not None and name not in point.moot and all(f.options.get(name) is not None for f in wrong):
                point.moot.add(name)
                if self.idle(point.sample, name):
                    point.plain = replace(point.plain, options={**point.plain.options, name: None})

    def idle(self, sample: Sample, name: str) -> bool:
        """Whether the definition gives the same without an option or an optional input."""
        m = sample.mechanism
        if name not in m.defaults:
            return False
        trial = Trial(replace(self.bench, mechanism=m), sample)
        try:
            with np.errstate(all="ignore"):
                other = trial.settle({name: m.defaults[name]})
                return all(
                    np.array_equal(trial.frames.exact(x, trial.base), trial.frames.exact(x, other), equal_nan=True)
                    for x in m.outputs
                    if x not in m.random
                )
        except (Declined, Faulted, SpecError, ValueError, TypeError):
            return False

    # Testing

    def tried(self, sample: Sample) -> Point | None:
        """A drawn case as a point, if it says anything."""
        if sample.key in self.known:
            return None
        self.known.add(sample.key)
        self.tries += 1
        try:
            outcome = judged(Trial(replace(self.bench, mechanism=sample.mechanism), sample), self.law, self.grades)
        except SpecError:
            return None
        if outcome.kind not in (self.kind, Kind.HELD) or not outcome.certain:
            return None
        point = point_of(sample, wrong=outcome.kind is self.kind)
        self.points.append(point)
        return point

    def speaks_against(self, point: Point, condition: Condition) -> bool:
        return point.wrong is not condition.holds(point.facts)

    def tests(self, condition: Condition) -> Iterator[Sample]:
        """Cases that would speak against a condition, those first that say most."""
        wrong = sorted(
            (p for p in self.points if p.wrong), key=lambda p: (bool(p.sample.case.literals), p.sample.entries)
        )
        claims = self.bench.subject.claims
        if claims.compiled:  # every shape costs a compilation
            return
        chosen = [point.sample for point in wrong[:WRONG]]
        for literal in condition.literals:
            yield from self.halved(literal, condition)
        for sample in chosen:
            for literal in condition.literals:
                found = self.kept(
                    "without", literal.key, sample, lambda x=sample, y=literal: steered(x, claims, y, holds=False)
                )
                if found is not None:
                    self.turned.add(literal.key)
                    yield found
        for literal in condition.literals:
            if literal.kind == "remainder":
                sizes = chosen[0].values[literal.name] + np.arange(1, REMAINDERS + 1)
                yield from filter(None, (sized(chosen[0], claims, literal.name, int(n)) for n in sizes))
        for sample in self.fresh():
            found = self.kept("on", condition.key, sample, lambda x=sample: imposed(x, claims, condition))
            if found is not None:
                yield found
            yield sample

    def kept(self, side: str, key: Any, sample: Sample, make: Callable[[], Sample | None]) -> Sample | None:
        """A case that was moved, made once."""
        at = (side, key, sample.key)
        if at not in self.moved:
            self.moved[at] = make()
        return self.moved[at]

    def halved(self, literal: Literal, condition: Condition) -> Iterator[Sample]:
        """Cases half-way between the wrong one and the right one that are nearest to a threshold, until they touch."""
        if literal.kind not in ("from", "up to"):
            return
        name, n = literal.name, literal.value
        edge = next(p.sample for p in self.points if p.wrong and p.facts.sizes[name] == n)
        others = Condition(tuple(one for one in condition.literals if one is not literal))
        while True:
            beyond = [
                p.facts.sizes[name]
                for p in self.points
                if not p.wrong and others.holds(p.plain) and not literal.holds(p.plain)
            ]
            limit = max(beyond, default=0) if literal.kind == "from" else min(beyond, default=2 * n)
            middle = (limit + n) // 2
            found = sized(edge, self.bench.subject.claims, name, middle) if abs(limit - n) > 1 else None
            if found is None or found.key in self.known:
                return
            yield found

    def fresh(self) -> Iterator[Sample]:
        """Fresh cases of the mechanism, and in turn with them of its operator, if that is looked at too."""
        m, claims = self.bench.mechanism, self.bench.subject.claims
        operator = [m.stating] if any(point.sample.mechanism is m.stating for point in self.points) else []
        plans = [
            plan(one, claims, PROFILES["quick"], self.seed, self.bench.dtype)
            for one in (m, *(x for x in operator if x is not m))
        ]
        turns = itertools.zip_longest(*(one.further(3 * FRESH) for one in plans))
        small = (one for turn in turns for one in turn if one is not None and one.entries <= EXPLAINED_ENTRIES)
        yield from itertools.islice(small, FRESH)

    # Places

    def place(self) -> str:
        """Which entries are wrong, in words, where they are the same on the largest of the wrong cases."""
        chosen = self.samples(lambda point: sum(n < SEVERAL for n in point.facts.sizes.values()))
        found = {place_of(self.bench, roomy(sample, self.bench.subject.claims)) for sample in chosen}
        return found.pop() if len(found) == 1 and len(chosen) == PLACES else ""

    def samples(self, key: Callable[[Point], int]) -> list[Sample]:
        """A few of the wrong cases of the mechanism, the first by a key and then the smallest."""
        wrong = [p for p in self.points if p.wrong and p.sample.mechanism is self.bench.mechanism]
        small = [
            point for point in wrong if point.sample.entries <= EXPLAINED_ENTRIES and not point.sample.case.literals
        ]
        return [p.sample for p in sorted(small, key=lambda p: (key(p), p.sample.entries))[:PLACES]]

    # Other dtypes

    def right_in(self) -> tuple[str, ...]:
        """The other dtypes, if wrong cases are right in all of them, beyond what their bounds would hide."""
        chosen = self.samples(lambda point: 0)
        others = [dtype for dtype in self.bench.subject.claims.dtypes if dtype != self.bench.dtype]
        found = [dtype for dtype in others if len(chosen) == PLACES and all(self.right(x, dtype) for x in chosen)]
        return tuple(found) if found == others else ()

    def right(self, sample: Sample, dtype: str) -> bool:
        """Whether a wrong case is right in another dtype, in which as large an error would be seen."""
        m, claims = sample.mechanism, self.bench.subject.claims
        bench = replace(self.bench, dtype=dtype)
        try:
            trial, other = Trial(self.bench, sample), Trial(bench, Sample(m, sample.case, dtype, claims=claims))
            outcome = judged(other, self.law, looser(dtype, claims.grade(dtype)))
            return outcome.kind is Kind.HELD and any(
                _seen(trial, other, name) for name in m.outputs if name not in m.random
            )
        except (Unfit, Declined, Faulted, Stray, SpecError):
            return False


def _seen(trial: Trial, other: Trial, name: str) -> bool:
    """Whether the error of an output would be beyond the bound of another trial."""
    try:
        found = np.asarray(trial.observed(name, trial.base), float)
    except Declined:
        return False
    exact, _ = bounded(trial, name, trial.base)
    _, radius = bounded(other, name, other.base)
    with np.errstate(all="ignore"):
        return bool((~(np.abs(found - exact) <= radius) & ~((found == exact) | np.isnan(exact))).any())
