"""A failure in a production-size case: which of its rows are wrong, and from which sizes on."""

from __future__ import annotations

from collections.abc import Iterator

from ..cases.large import LargeSample
from ..cases.samples import Sample
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.cells import Failure, Result
from ..judging.judge import Kind
from ..judging.large import Large, Unroomy
from ..judging.serving import SECONDS
from ..judging.settling import Declined
from .conditions import Fit
from .maps import Map
from .parting import Parting, point_of
from .patterns import in_words, noun_of
from .separation import LEAST, When

LOOKED_AT = 20.0
"""Seconds, and as many of CPU time, in which cases are tried against a condition."""


def wrong_rows(failure: Failure) -> Map | None:
    """Which rows are wrong, in words."""
    found = failure.large
    if found is None or found.worst is None or found.wrong is None or not found.wrong.any():
        return None
    wrong, nouns = found.wrong, [noun_of(label) for label in found.labels]
    kept = [axis for axis, n in enumerate(wrong.shape) if n > 1]
    pattern = in_words(wrong.squeeze(), [nouns[axis] for axis in kept])
    count = f"{int(wrong.sum())} of {wrong.size} rows"
    if pattern == "everywhere":
        return Map(f"{found.worst.output} is wrong in all rows", failure.sample.case.label)
    return Map(f"{found.worst.output} is wrong at {pattern or count}", failure.sample.case.label)


def from_which_sizes(
    bench: Bench, failure: Failure, result: Result, seed: int, memory: int, deadline: float | None = None
) -> When | None:
    """The condition on sizes and options under which large cases are wrong; None where none was found."""
    return _AtScale(bench, failure, result, seed, memory, deadline).when()


class _AtScale(Parting):
    """The search for the condition that parts wrong large cases from right ones."""

    seconds = LOOKED_AT
    patience = LOOKED_AT

    def __init__(
        self, bench: Bench, failure: Failure, result: Result, seed: int, memory: int, deadline: float | None
    ) -> None:
        kind = failure.outcome.kind
        told = [(sample, found) for sample, found in result.large if found in (kind, Kind.HELD)]
        points = [point_of(sample, wrong=found is kind) for sample, found in told]
        super().__init__(bench, points, seed, deadline)
        self.memory, self.kind, self.grades = memory, kind, result.grades

    def when(self) -> When | None:
        found = self.stands()
        if found is None:
            return None
        (fit, tested), holds = found, found[0].condition.holds
        wrong = sum(point.wrong for point in self.points)
        inside = sum(holds(point.facts) for point in self.points)
        outside = len(self.points) - inside
        if fit.condition.literals and outside < LEAST:
            return None
        return When(fit.condition, self.bench.dtype, wrong, inside, outside, tested)

    def wrong(self, sample: Sample) -> bool | None:
        assert isinstance(sample, LargeSample)
        try:
            kind = Large(self.bench, sample, memory=self.memory, seconds=SECONDS).judged(self.grades).kind
        except (Declined, Unroomy, SpecError):
            return None
        return kind is self.kind if kind in (self.kind, Kind.HELD) else None

    def sharpened(self, fit: Fit) -> bool:
        """Never: a case takes long."""
        return False

    def fresh(self, count: int = 0) -> Iterator[Sample]:
        """None: cases of the sizes of production are written out."""
        return iter(())
