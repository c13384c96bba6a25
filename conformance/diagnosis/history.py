"""Which earlier calls a failure needs if it passes in a new process: the fewest, and what matters about them.

Every attempt is made in a process of its own: the calls of some cases, each once, and then the case that fails.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..cases.samples import Case, Sample, Unfit
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.cells import Failure, Result, law_of
from ..judging.judge import Outcome, judged
from ..judging.settling import Declined
from ..judging.shrinking import shrink
from ..judging.trial import Faulted, Trial
from ..subjects.subject import renewed
from .conditions import Literal
from .facts import facts_of
from .phrases import a
from .steering import sized, steered

SECONDS = 15.0
"""Seconds after which no further attempt is made."""
ATTEMPTS = 80
"""Attempts, each in a process of its own."""
STEPS = 24
"""Attempts to make the failing case smaller with the calls before it."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retraced:
    """A failure after the fewest earlier calls, and what of these matters."""

    failure: Failure
    says: str


def retraced(bench: Bench, failure: Failure, result: Result, deadline: float | None = None) -> Retraced | None:
    """The failure after the shortest sequence of calls; None where calls of cases alone do not bring it about.

    No attempt is begun after the `deadline`, of the clock `time.monotonic`.
    """
    search = _Retracing(bench, failure, result, min(deadline or math.inf, time.monotonic() + SECONDS))
    earlier = (*failure.before, failure.found.case)
    for sample, cases in ((failure.sample, earlier), (failure.found, failure.before)):
        if cases and search.fails(cases, sample) is not None:
            fewest = fewest_of(cases, lambda some, sample=sample: search.fails(some, sample) is not None)
            return search.told(tuple(fewest), sample)
    return None


def prepared(bench: Bench, cases: Sequence[Case]) -> bool:
    """Have the next call be the one after those of some cases in a new process; whether there can be one."""
    if not renewed(bench.subject):
        return False
    for case in cases:
        with contextlib.suppress(Unfit, Declined, Faulted, SpecError):
            trial = Trial(bench, Sample(bench.mechanism, case, bench.dtype, claims=bench.subject.claims))
            trial.reply(trial.base)
    return True


def fewest_of(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """As few of some items, in their order, as still fail: none of them can be left out.

    Zeller and Hildebrandt 2002, Simplifying and isolating failure-inducing input.
    """
    parts = 2
    while len(items) > 1:
        step = math.ceil(len(items) / parts)
        starts = range(0, len(items), step)
        alone = [items[start : start + step] for start in starts]
        without = [[*items[:start], *items[start + step :]] for start in starts] if parts > 2 else []
        found = next((some for some in (*alone, *without) if len(some) < len(items) and fails(some)), None)
        if found is not None:
            items, parts = found, 2 if len(found) <= step else max(parts - 1, 2)
        elif parts >= len(items):
            break
        else:
            parts = min(2 * parts, len(items))
    return items


class _Retracing:
    """Attempts to bring a failure about in new processes."""

    def __init__(self, bench: Bench, failure: Failure, result: Result, deadline: float) -> None:
        law = law_of(bench.mechanism, failure.law)
        assert law is not None
        self.bench, self.failure, self.law, self.grades, self.deadline = bench, failure, law, result.grades, deadline
        self.attempts = 0

    @property
    def spent(self) -> bool:
        return self.attempts >= ATTEMPTS or time.monotonic() > self.deadline

    def fails(self, cases: Sequence[Case], sample: Sample) -> Outcome | None:
        """How the failing case fares after some cases, if it fails as it did."""
        if self.spent or not prepared(self.bench, cases):
            return None
        self.attempts += 1
        outcome = judged(Trial(self.bench, sample), self.law, self.grades)
        return outcome if outcome.kind is self.failure.outcome.kind else None

    def told(self, cases: tuple[Case, ...], sample: Sample) -> Retraced:
        says = f"after {len(cases)} earlier calls" if len(cases) > 1 else "only after an earlier call"
        if len(cases) == 1:
            for words, case in self.reasons(sample, cases[0]):
                if self.fails([case], sample) is not None:
                    cases, says = (case,), self.widened(words, case, sample)
                    break
        smallest = shrink(self.bench.mechanism, sample, lambda case: self.smaller(cases, case), tries=STEPS)
        self.attempts = 0
        outcome = self.fails(cases, smallest.sample) or self.failure.outcome
        tried = self.failure.tried + smallest.tried
        failure = replace(
            self.failure, sample=smallest.sample, outcome=outcome, tried=tried, before=cases, retraced=True
        )
        return Retraced(failure, f"wrong {says}; right in a new process")

    def smaller(self, cases: Sequence[Case], case: Case) -> Sample | None:
        """The sample of a smaller case that fails after the same calls and is right without them."""
        try:
            sample = Sample(self.bench.mechanism, case, self.bench.dtype, claims=self.bench.subject.claims)
        except (Unfit, SpecError):
            return None
        fails = self.fails(cases, sample) is not None and self.fails((), sample) is None
        return sample if fails and not self.spent else None

    def reasons(self, sample: Sample, earlier: Case) -> Iterator[tuple[str, Case]]:
        """What of an earlier call may matter, each with a call that differs from the failing one in that alone."""
        claims = self.bench.subject.claims
        yield "an earlier call of any kind", replace(sample.case, seed=sample.case.seed + 1, literals={})
        other = Sample(sample.mechanism, earlier, sample.dtype, claims=claims)
        mine, its = facts_of(sample), facts_of(other)
        for name, n in its.sizes.items():
            moved = sized(sample, claims, name, n) if mine.sizes.get(name) != n else None
            if moved is not None:
                yield name, moved.case
        for name, given in its.given.items():
            moved = steered(sample, claims, Literal("given", name), holds=given) if mine.given[name] != given else None
            if moved is not None:
                yield f"a call {'with' if given else 'without'} {a(name)}", moved.case
        for name, x in its.options.items():
            if x != mine.options.get(name):
                usual = sample.mechanism.defaults.get(name)
                shown = "without " + name if x is None else f"with {name} = {x}"
                case = replace(sample.case, fixed={**sample.case.fixed, name: usual if x is None else x}, literals={})
                yield f"a call {shown}", case

    def widened(self, words: str, case: Case, sample: Sample) -> str:
        """What is told of an earlier call; of a size, whether a smaller and a larger one do alike."""
        if words not in sample.mechanism.stating.sizes:
            return f"only after {words}"
        mine, its = sample.values[words], case.fixed.get(words, sample.values[words])
        beyond = sized(sample, self.bench.subject.claims, words, mine - 1 if its > mine else mine + 1)
        alike = beyond is not None and self.fails([beyond.case], sample) is not None
        return f"only after a call with {'another' if alike else 'a larger' if its > mine else 'a smaller'} {words}"
