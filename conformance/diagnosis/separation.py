"""The condition under which a subject is wrong: learned on the cases of the run, then tested on others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.bounds import Stray
from ..judging.cells import Failure, Result, law_of
from ..judging.judge import Kind, definition_law, judged
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from ..mechanisms.library import uncollected
from ..mechanisms.mechanism import Law
from ..numerics.grades import looser
from .candidates import Candidate
from .conditions import CHOICES, EVERYWHERE, EXCEPTION, MOST, Condition, Fit, fitting, literals, ordered
from .facts import Facts
from .likeness import Likeness, Nearest
from .maps import place_of
from .observations import Observation, Stance
from .parting import Parting, Point, point_of
from .steering import EXPLAINED_ENTRIES, as_case, roomy
from .weights import bounded

PLACES = 3
"""Wrong cases on which the same entries are wrong where that is told."""
SEVERAL = 3
"""Indices of an axis from which on a pattern along it has one wording."""
FURTHER = 2.0
"""What a condition may cost more than one by which options that make no difference on a case are as if left out."""
MOOT = 0.5
"""The cost of a right case on which a condition holds in name alone: what it speaks of makes no difference there."""
CHANCE = 0.01
"""How likely it may be that all cases without a condition are right by their entries, were they as those with it."""
LEAST_SECONDS = 0.6
"""CPU time for the condition, however long the search for a name took."""
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
    partly: bool = False
    """Whether it depends on the entries of arrays too on which of such cases the subject is wrong."""


def separated(
    bench: Bench,
    failure: Failure,
    result: Result,
    seed: int,
    *,
    observations: Sequence[Observation] = (),
    deadline: float | None = None,
    times: float = 1.0,
    left: float = math.inf,
    likeness: Likeness | Nearest | None = None,
) -> When | None:
    """The condition under which the subject is wrong; None where none was found.

    `observations` are of cases of further mechanisms of the operator.
    No case is begun after the `deadline`, of the clock `time.monotonic`, and so many `times` as many as usual are drawn
    at most, in the CPU seconds that are `left` for it, but for a least time.
    What the subject is like under a condition alone says that it is right without that.
    """
    kind = failure.outcome.kind
    told = [(sample, found) for sample, found in result.outcomes if found in (kind, Kind.HELD)]
    law = definition_law(bench.mechanism)
    if all(found is Kind.HELD for _, found in told) and kind is Kind.REFUTED:  # but on a call that a law made of one
        told += [(sample, kind) for sample in asked(bench, observations)]
    if all(found is Kind.HELD for _, found in told):
        law, told = law_of(bench.mechanism, failure.law) or law, [(failure.found, kind)]
    if law.name == failure.law and failure.sample.key != failure.found.key:
        told.append((failure.sample, kind))
    points = [point_of(sample, wrong=found is kind) for sample, found in told]
    if law.name == "definition" and kind is Kind.REFUTED:
        further = (o for o in observations if o.mechanism is not bench.mechanism and not o.settled.key)
        points += [point_of(o.trial.sample, wrong=not o.right) for o in further]
    if any(point.wrong and point.facts.finite for point in points):  # what is not finite is wrong in its own ways
        points = [point for point in points if point.facts.finite or not point.wrong]
    if not any(point.wrong for point in points):
        return None
    search = Separation(bench, law, kind, result, points, seed, deadline, times)
    search.seconds = min(search.seconds, max(left, times * LEAST_SECONDS))
    candidate = search.like = likeness.candidate if isinstance(likeness, Likeness) else None
    search.needed = candidate.where if candidate is not None and candidate.where is not None else EVERYWHERE
    with uncollected():
        return search.when()


def asked(bench: Bench, observations: Sequence[Observation]) -> Iterator[Sample]:
    """The calls that a law made of cases and that are wrong, as cases of their own."""
    for o in observations:
        if o.settled.key and not o.right and o.mechanism is bench.mechanism:
            sample = as_case(o.trial.sample, o.settled.values, bench.subject.claims)
            if sample is not None:
                yield sample


class Separation(Parting):
    """The search for a condition."""

    turning = True

    def __init__(
        self,
        bench: Bench,
        law: Law,
        kind: Kind,
        result: Result,
        points: Sequence[Point],
        seed: int,
        deadline: float | None,
        times: float,
    ) -> None:
        super().__init__(bench, points, seed, deadline, times)
        self.law, self.kind, self.grades = law, kind, result.grades
        self.needed = EVERYWHERE
        """A condition without which the subject is known to be right."""
        self.like: Candidate | None = None
        """What the subject is like."""

    def when(self) -> When | None:
        """The condition that stands, or the last one that was found before the budget was spent."""
        found = self.stands()
        return None if found is None else self.told(self.with_needed(found[0]), tested=found[1])

    def wrong(self, sample: Sample) -> bool | None:
        try:
            trial = Trial(replace(self.bench, mechanism=sample.mechanism), sample)
            outcome = judged(trial, self.law, self.grades, kind_alone=True)
        except SpecError:
            return None
        if outcome.kind not in (self.kind, Kind.HELD) or not outcome.certain:
            return None
        return outcome.kind is self.kind

    def with_needed(self, fit: Fit) -> Fit:
        """A condition with what is needed, if it holds on fewer right cases then, and without what this makes idle."""
        wrong = [point.facts for point in self.points if point.wrong]
        if not self.needed.literals or not all(self.needed.holds(facts) for facts in wrong):
            return fit
        known = {(one.kind, one.name) for one in self.needed.literals}
        chosen = [*self.needed.literals, *(x for x in fit.condition.literals if (x.kind, x.name) not in known)]
        least = self.right_inside(Condition(tuple(chosen)))
        for one in chosen[len(known) :]:
            fewer = [x for x in chosen if x is not one]
            chosen = fewer if self.right_inside(Condition(tuple(fewer))) == least else chosen
        if least >= self.right_inside(fit.condition) or len(chosen) > MOST:
            return fit
        return replace(
            fit, condition=ordered(Condition(tuple(chosen))), exceptions=least, partly=fit.partly and least > 0
        )

    def right_inside(self, condition: Condition) -> int:
        """The right cases on which a condition holds."""
        return sum(not point.wrong and condition.holds(point.plain) for point in self.points)

    def told(self, fit: Fit, *, tested: bool) -> When | None:
        holds = fit.condition.holds
        wrong = sum(point.wrong for point in self.points)
        right = [point for point in self.points if not point.wrong]
        inside = wrong + sum(holds(point.facts if point.hides else point.plain) for point in right)
        outside = sum(not holds(point.facts) for point in right)
        if outside < LEAST if fit.condition.literals else self.wide:
            return None
        if fit.partly and (1 - wrong / inside) ** outside > CHANCE:
            return None
        more = self.law.name == "definition" and self.kind is Kind.REFUTED and not self.spent
        right_in = self.right_in() if more else ()
        at = self.place() if more else ""
        return When(fit.condition, self.bench.dtype, wrong, inside, outside, tested, right_in, at, fit.partly)

    # Learning

    def fit(self) -> Fit | None:
        wrong = [point.facts for point in self.points if point.wrong]
        right = [point for point in self.points if not point.wrong]
        for point in right:
            self.simplify(point, wrong)
        plain = fitting(wrong, [point.plain for point in right], without=self.untested)
        whole = fitting(wrong, [point.facts for point in right], without=self.untested)
        if plain is None or (plain.partly and (whole is None or whole.partly)):
            return plain
        sharp = whole is not None and not whole.partly and not whole.exceptions
        if whole is not None and sharp and (plain.partly or whole.score <= plain.score + FURTHER):
            return whole
        return plain if plain.partly else self.narrowed(plain, wrong)

    def narrowed(self, fit: Fit, wrong: Sequence[Facts]) -> Fit:
        """A condition with one more option or input, beside which what it speaks of makes no difference elsewhere."""
        chosen = fit.condition.literals
        spoken = {literal.name for literal in chosen}
        further = [
            one
            for one in literals(wrong)
            if one.kind in CHOICES and one.name not in spoken and one.key not in self.untested
        ]
        conditions = [fit.condition, *(ordered(Condition((*chosen, one))) for one in further if len(chosen) < MOST)]
        return replace(fit, condition=min(conditions, key=self.untrue))

    def untrue(self, condition: Condition) -> float:
        """What a condition costs: its words, and the right cases on which it holds, as they are and in effect."""
        right = [point for point in self.points if not point.wrong]
        really = sum(condition.holds(point.plain) for point in right)
        nominally = sum(condition.holds(point.facts) for point in right)
        return condition.cost + EXCEPTION * really + MOOT * max(nominally - really, 0)

    def simplify(self, point: Point, wrong: Sequence[Facts]) -> None:
        """Take from the facts of a right case what makes no difference there, if all wrong cases have it."""
        for name, given in point.facts.given.items():
            asked = given and name not in point.moot and all(facts.given.get(name) for facts in wrong)
            if asked and self.is_moot(point, name):
                point.plain = replace(point.plain, given={**point.plain.given, name: False})
        for name, x in point.facts.options.items():
            asked = name not in point.moot and all(f.options.get(name) is not None for f in wrong)
            if x is not None and asked and self.is_moot(point, name):
                point.plain = replace(point.plain, options={**point.plain.options, name: None})

    def is_moot(self, point: Point, name: str) -> bool:
        """Whether a right case is as one without an option or input: it makes no difference, or hides the mistake."""
        point.moot.add(name)
        idle = self.idle(point.sample, name)
        hidden = not idle and self.hidden(point.sample, name)
        point.hides = point.hides or hidden
        return idle or hidden

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

    def hidden(self, sample: Sample, name: str) -> bool:
        """Whether a right case does not show the mistake of a line that reads an option or input, for its numbers.

        Where the mistake is none, as one about later items is none in a single one, there is nothing that it hides.
        """
        m = sample.mechanism
        if self.like is None or self.like.where is not None or m is not self.bench.mechanism:
            return False
        read = {x for line in self.like.changes.keys() & m.definition.keys() for x in m.definition[line].uses}
        if name not in read:
            return False
        trial = Trial(self.bench, sample)
        observation = Observation(trial, trial.base, self.grades[0])
        with np.errstate(all="ignore"):
            made = observation.answered() and observation.version(self.like) is not observation.exact
            return made and observation.stance(self.like) is not Stance.DIFFERS

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
