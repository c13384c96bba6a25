"""The search for a condition: learned on cases, then tested on other cases drawn for that.

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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..judging.bench import Bench
from .clock import now
from .conditions import Condition, Fit, Literal, fitting
from .facts import Facts, facts_of
from .steering import EXPLAINED_ENTRIES, beyond, imposed, neighbours, otherwise, redrawn, sized, steered, turned

TRIES = 128
"""Cases that are drawn for the tests of conditions."""
SECONDS = 1.2
"""CPU time of this process after which no further one is drawn."""
PATIENCE = 12.0
"""Seconds in which a subject that runs elsewhere answers them, as many of them on a busy machine as on an idle one."""
WRONG = 3
"""Wrong cases that are moved out of a condition."""
FEW = 4
"""Wrong cases below which more of them are looked for beside them."""
FRESH = 8
"""Fresh cases that are moved into a condition, and as many that are taken as they come."""
MORE = 32
"""Fresh cases, and as many beside wrong ones, on which a condition holds that does so on right ones as well."""
PAST = (2, 3)
"""How far beyond a threshold further cases are tried: the nearest of another remainder by two, and by three."""
LAST = 0.3
"""CPU time in which the literals of a condition are left out once the budget is spent."""
TURNED = 4
"""Wrong cases of which each option or input is given or left out, as long as the one before was right then."""
DOUBTS = 3
"""Seeds with which a wrong case is drawn again where one literal of a condition does not hold."""
ROWS = ("some", "none")
"""The kinds of literals about rows of integers."""
SUPPORTED = 6
"""Right cases without one of the literals of a condition that support it where no wrong case can be without it."""
VAGUE = 10
"""Wrong cases to each right one on which a condition holds, below which it may leave out what tells them apart."""
REMAINDERS = 8
"""Sizes beside a wrong one that are tried for a remainder."""


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
    hides: bool = False
    """Whether some of these make a difference, and the mistake of a line that reads them does not show."""


def point_of(sample: Sample, *, wrong: bool) -> Point:
    facts = facts_of(sample)
    return Point(sample, wrong, facts, facts)


class Parting:
    """The search for a condition that parts the wrong cases from the right ones."""

    exact = False
    """Whether a condition has to hold on no right case."""
    turning = False
    """Whether options and inputs are given and left out of which a condition does not speak."""
    seconds = SECONDS
    patience = PATIENCE

    def __init__(
        self, bench: Bench, points: Sequence[Point], seed: int, deadline: float | None = None, times: float = 1.0
    ) -> None:
        """Draws so many `times` as many cases as usual at most, in as much time."""
        self.bench, self.seed = bench, seed
        self.points = [*points]
        self.tries, self.started, self.cpu = 0, time.monotonic(), now()
        self.seconds, self.most = times * self.seconds, int(times * TRIES)
        self.deadline = min(deadline or math.inf, self.started + times * self.patience)
        self.known = {point.sample.key for point in points}
        self.telling = {*self.known}
        """The cases that were tried, and those of them that say something."""
        self.moved: dict[tuple[Any, ...], Sample | None] = {}
        self.turned: set[tuple[Any, ...]] = set()
        """The literals without which wrong cases were tried."""
        self.inside = self.wide = False
        """Whether further cases on which a condition holds were tried, and further ones where none was found."""
        self.untested: set[tuple[Any, ...]] = set()
        """The literals that no wrong case can be without, so that nobody knows what they have to do with it."""

    def stands(self) -> tuple[Fit, bool] | None:
        """The condition that stands, and true; or the last one before the budget was spent, and false."""
        for sample in self.beside() if sum(point.wrong for point in self.points) < FEW else ():
            self.tried(sample)
        fit = self.fit()
        while fit is not None or self.widened():
            if fit is None:
                fit = self.fit()
                continue
            told = [*filter(None, map(self.tried, self.while_it_stands(fit)))]
            if self.spent:
                return self.shorter(fit), False
            if not told or not self.speaks_against(told[-1], fit):
                idle = [one.key for one in fit.condition.literals if not self.tested(one, fit)]
                vague = fit.partly or VAGUE * fit.exceptions > sum(point.wrong for point in self.points)
                if not idle and not (vague and self.sharpened(fit)) and not self.doubted(fit):
                    return fit, True
                self.untested.update(idle)
            fit = self.fit()
        return None

    def tested(self, literal: Literal, fit: Fit) -> bool:
        """Whether wrong cases were tried without a literal, or several right ones are without it alone.

        These count for rows of integers, which are drawn and cannot be moved as sizes can.
        """
        supported = literal.kind in ROWS and len(self.right_without(literal, fit.condition)) >= SUPPORTED
        return supported or literal.key in self.turned

    def right_without(self, literal: Literal, condition: Condition) -> list[Point]:
        """The right cases on which one literal of a condition alone does not hold."""
        others = Condition(tuple(one for one in condition.literals if one is not literal))
        return [p for p in self.points if not p.wrong and not literal.holds(p.facts) and others.holds(p.facts)]

    def shorter(self, fit: Fit) -> Fit:
        """A condition of several literals, learned anew where the subject is wrong without one of them.

        It is asked for once no budget is left, which may have gone before each literal was left out.
        """
        until, claims = now() + LAST, self.bench.subject.claims
        wrong = sorted((p.sample for p in self.points if p.wrong), key=lambda sample: sample.entries)[:WRONG]
        several = not self.exact and len(fit.condition.literals) > 1
        for literal in fit.condition.literals if several and not claims.compiled and not self.bench.deadly else ():
            for sample in wrong:
                moved = self.kept("without", literal.key, sample, lambda x=sample, y=literal: beyond(x, claims, y))
                for other in () if moved is None else (moved, *redrawn(moved, claims, 1)):
                    if now() > until or self.bench.faults["hung"]:
                        return fit
                    point = self.tried(other)
                    if point is not None and point.wrong and not fit.condition.holds(point.facts):
                        return self.fit() or fit
        return fit

    def widened(self) -> bool:
        """Whether further cases beside wrong ones were tried, for too few are known to separate them from right ones.

        That is done once, and for half of the budget at most.
        """
        claims = self.bench.subject.claims
        if self.exact or self.wide or self.spent or claims.compiled:
            return False
        self.wide = True
        wrong = sorted((p.sample for p in self.points if p.wrong), key=lambda sample: sample.entries)
        few = wrong[:: max(len(wrong) // TURNED, 1)][:TURNED]
        for sample in itertools.chain.from_iterable(neighbours(one, claims) for one in few):
            if self.spent or self.tries > self.most // 2 or now() - self.cpu > self.seconds / 2:
                break
            self.tried(sample)
        return True

    def sharpened(self, fit: Fit) -> bool:
        """Whether further cases on which a condition holds were tried, for it may leave out what tells them apart.

        They are the neighbours of wrong cases and fresh ones; that is done once.
        """
        if self.inside or self.bench.subject.claims.compiled:
            return False
        self.inside = True
        claims = self.bench.subject.claims
        wrong = [p.sample for p in sorted((p for p in self.points if p.wrong), key=lambda p: p.sample.entries)]
        near = itertools.chain.from_iterable(neighbours(sample, claims) for sample in wrong[:TURNED])
        fresh = filter(None, (imposed(sample, claims, fit.condition) for sample in self.fresh(MORE)))
        samples = (one for pair in itertools.zip_longest(near, fresh) for one in pair if one is not None)
        for sample in itertools.islice(samples, 2 * MORE):
            if self.spent:
                break
            self.tried(sample)
        return True

    def doubted(self, fit: Fit) -> bool:
        """Whether a case without one of the literals speaks against a condition where it has other entries.

        That one such case is right may be by its entries.
        """
        claims = self.bench.subject.claims
        wrong = sorted((p.sample for p in self.points if p.wrong), key=lambda sample: sample.entries)
        few = wrong[:: max(len(wrong) // TURNED, 1)][:TURNED]
        for literal in [] if claims.compiled else fit.condition.literals:
            for sample in few:
                moved = self.kept("without", literal.key, sample, lambda x=sample, y=literal: beyond(x, claims, y))
                values = itertools.islice(otherwise(sample, claims, literal), 1, None)
                for other in [] if moved is None else (*values, *redrawn(moved, claims, DOUBTS)):
                    if self.spent:
                        return False
                    point = self.tried(other)
                    if point is not None and point.wrong and not fit.condition.holds(point.facts):
                        return True
        return False

    def beside(self) -> Iterator[Sample]:
        """Cases that differ from a wrong one in one thing, as far as a quarter of the budget goes."""
        claims, told = self.bench.subject.claims, len(self.points)
        wrong = sorted((p.sample for p in self.points if p.wrong), key=lambda sample: sample.entries)
        for sample in [] if claims.compiled or not wrong else neighbours(wrong[0], claims):
            if self.spent or len(self.points) - told > TRIES // 4 or now() - self.cpu > self.seconds / 4:
                return
            yield sample

    def while_it_stands(self, fit: Fit) -> Iterator[Sample]:
        """The tests of a condition, until one speaks against it or the budget is spent."""
        for sample in self.tests(fit.condition):
            if self.spent:
                return
            count = len(self.points)
            yield sample
            if len(self.points) > count and self.speaks_against(self.points[-1], fit):
                return

    @property
    def spent(self) -> bool:
        return (
            self.tries >= self.most
            or time.monotonic() > self.deadline
            or now() - self.cpu > self.seconds
            or self.bench.faults["hung"] > 0
            or self.bench.deadly
        )

    def fit(self) -> Fit | None:
        """The condition that the points suggest."""
        wrong = [point.facts for point in self.points if point.wrong]
        right = [point.plain for point in self.points if not point.wrong]
        return fitting(wrong, right, exact=self.exact, without=self.untested)

    # Testing

    def tried(self, sample: Sample) -> Point | None:
        """A drawn case as a point, if it says anything and was not tried before."""
        if sample.key in self.known:
            return None
        self.known.add(sample.key)
        self.tries += 1
        wrong = self.wrong(sample)
        if wrong is None:
            return None
        point = point_of(sample, wrong=wrong)
        self.points.append(point)
        self.telling.add(sample.key)
        return point

    def wrong(self, sample: Sample) -> bool | None:
        """Whether the subject is wrong on a case; None where that cannot be said."""
        raise NotImplementedError

    def speaks_against(self, point: Point, fit: Fit) -> bool:
        holds = fit.condition.holds(point.facts)
        return point.wrong and not holds if fit.partly else point.wrong is not holds

    def tests(self, condition: Condition) -> Iterator[Sample]:
        """Cases that would speak against a condition, those first that say most."""
        wrong = sorted(
            (p for p in self.points if p.wrong), key=lambda p: (bool(p.sample.case.literals), p.sample.entries)
        )
        claims = self.bench.subject.claims
        if claims.compiled:  # every shape costs a compilation
            return
        for literal in condition.literals:
            yield from self.halved(literal, condition)
            yield from self.past(literal)
        for number, point in enumerate(wrong[: 3 * WRONG]):
            for literal in condition.literals:
                if number >= WRONG and literal.key in self.turned:  # the first ones said enough
                    continue
                sample = point.sample
                found = self.kept("without", literal.key, sample, lambda x=sample, y=literal: beyond(x, claims, y))
                if found is not None:
                    yield found
                    self.turned.update({literal.key} if found.key in self.telling else ())
        for literal in condition.literals:
            yield from self.entered(literal, condition) if literal.key not in self.turned else ()
            if literal.kind == "remainder":
                first = wrong[0].sample
                sizes = first.values[literal.name] + np.arange(1, REMAINDERS + 1)
                yield from filter(None, (sized(first, claims, literal.name, int(n)) for n in sizes))
        for sample in self.fresh():
            found = self.kept("on", condition.key, sample, lambda x=sample: imposed(x, claims, condition))
            if found is not None:
                yield found
            yield sample
        if self.turning:
            yield from self.turned_over(condition, [point.sample for point in wrong[:TURNED]])

    def entered(self, literal: Literal, condition: Condition) -> Iterator[Sample]:
        """Right cases without a literal alone, moved to where it holds, until the subject is wrong on one.

        They say as much as a wrong case that is moved out, of which none says anything.
        """
        claims, near = self.bench.subject.claims, [p.sample for p in self.right_without(literal, condition)]
        for sample in sorted(near, key=lambda sample: sample.entries)[: 3 * WRONG]:
            found = self.kept("within", literal.key, sample, lambda x=sample: steered(x, claims, literal, holds=True))
            if found is not None:
                yield found
                if any(p.wrong for p in self.points if p.sample.key == found.key):
                    self.turned.add(literal.key)
                    return

    def turned_over(self, condition: Condition, wrong: Sequence[Sample]) -> Iterator[Sample]:
        """Wrong cases with one option or optional input given or left out of which a condition does not speak.

        Where the first one is right then, so may be the others.
        """
        claims, spoken = self.bench.subject.claims, {literal.name for literal in condition.literals}
        for name in dict.fromkeys(
            name for sample in wrong for name in (*sample.mechanism.optional, *sample.mechanism.options)
        ):
            for sample in wrong if name not in spoken else ():
                found = self.kept("other", name, sample, lambda x=sample, n=name: turned(x, claims, n))
                if found is None:
                    continue
                yield found
                if any(point.wrong for point in self.points if point.sample is found):
                    break

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
        same = [{one.name, one.value} for one in others.literals if one.kind == "same"]
        alike = sorted(set().union(*(pair for pair in same if name in pair)))
        while True:
            beyond = [
                p.facts.sizes[name]
                for p in self.points
                if not p.wrong and others.holds(p.plain) and not literal.holds(p.plain)
            ]
            limit = max(beyond, default=0) if literal.kind == "from" else min(beyond, default=2 * n)
            middle = (limit + n) // 2
            found = sized(edge, self.bench.subject.claims, name, middle, alike) if abs(limit - n) > 1 else None
            if found is None or found.key in self.known:
                return
            yield found
            self.turned.update({literal.key} if found.key in self.telling else ())

    def past(self, literal: Literal) -> Iterator[Sample]:
        """Cases a little farther beyond a threshold than next to it, where a remainder would be the same again."""
        if literal.kind not in ("from", "up to"):
            return
        name, n, sign = literal.name, literal.value, 1 if literal.kind == "up to" else -1
        edge = next(p.sample for p in self.points if p.wrong and p.facts.sizes[name] == n)
        for size in (n + step * sign for step in PAST if n + step * sign > 0):
            found = sized(edge, self.bench.subject.claims, name, size)
            if found is not None:
                yield found
                self.turned.update({literal.key} if found.key in self.telling else ())

    def fresh(self, count: int = FRESH) -> Iterator[Sample]:
        """Fresh cases of the mechanism, and in turn with them of its operator, if that is looked at too."""
        m, claims = self.bench.mechanism, self.bench.subject.claims
        operator = [m.stating] if any(point.sample.mechanism is m.stating for point in self.points) else []
        plans = [
            plan(one, claims, PROFILES["quick"], self.seed, self.bench.dtype)
            for one in (m, *(x for x in operator if x is not m))
        ]
        turns = itertools.zip_longest(*(one.more(3 * count) for one in plans))
        small = (one for turn in turns for one in turn if one is not None and one.entries <= EXPLAINED_ENTRIES)
        yield from itertools.islice(small, count)
