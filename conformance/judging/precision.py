"""Whether a looser grade explains results that the claimed one does not, or is only too wide to decide.

The bound of a looser grade may be so wide that no error is beyond it, as for a whole model; then it explains nothing.
It is believed where it has explained a case on which it could have been refuted, and where no scenario refutes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..cases.samples import Sample
from .cells import Tally
from .course import Course
from .judge import Kind
from .trial import Trial

FURTHER = 40
"""Scenarios that are tried beside those of the run."""
ENTRIES = 4_000
"""Entries beyond which a scenario is too large for that."""


def examined(
    seen: Course,
    scenarios: Iterable[Sample],
    define: Callable[[Trial], bool],
    judge: Callable[[Tally, Trial], Kind],
) -> None:
    """Try the definition where looser grades can be refuted; what none of them explains fails at the tighter ones.

    `define` tries the definition on a trial, and `judge` a law.
    """
    if seen.definition is None:
        return
    for sample in _further(seen, scenarios):
        define(Trial(seen.bench, sample))
    left = [(tally, sample) for tally, sample, grade in seen.unexplained if seen.wants_looser(grade)]
    if seen.violated or not left:
        return
    seen.grades = seen.grades[: seen.grades.index(seen.level) + 1]
    silent = [sample for sample, kind in seen.outcomes if kind is Kind.VACUOUS]
    seen.outcomes = [one for one in seen.outcomes if one[1] is not Kind.VACUOUS]
    for sample in silent:
        define(Trial(seen.bench, sample))
    for tally, sample in left if seen.definition.open else ():
        if tally.open and tally is not seen.definition:
            judge(tally, Trial(seen.bench, sample))


def _further(seen: Course, scenarios: Iterable[Sample]) -> Iterator[Sample]:
    """Scenarios that the run has left out, as long as it is open whether a looser grade explains what was returned."""
    left = (one for one in scenarios if one.entries <= ENTRIES and one.key not in seen.tried)
    for _, sample in zip(range(FURTHER), left, strict=False):
        if seen.given_up or seen.late or seen.violated or not (seen.unexplained or seen.imprecise):
            return
        yield sample
