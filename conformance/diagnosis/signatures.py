"""What can be compared when outputs are random: which laws fail on which cases, and a few means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..errors import SpecError
from ..execution.calling import Call
from ..judging.bench import Bench
from ..judging.cells import Failure
from ..judging.judge import Kind, judged
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from ..mechanisms.definition import Frame
from ..mechanisms.mechanism import Law
from ..subjects.stand_ins import DefinitionSubject
from .candidates import Candidate
from .facts import facts_of

SIGNED_ENTRIES = 5_000
"""Entries beyond which a case is too large to be tried with every candidate."""
CASES = 5
"""Cases on which every law is tried."""
MOST = 32
"""Integers that are counted."""
TINY = 1e-6
"""What two means may differ by for rounding."""
COUNTED = 20_000
"""Entries beyond which a case is too large for its outputs to be counted."""
MANY = 1_000
"""Rows of a call of which it is counted how often each is returned."""
SEEDS = 4
"""Seeds with which that is counted."""
SIGMAS = 6.0
"""Standard deviations within which the same quantity may lie in two samples of one distribution."""


class Signature:
    """Which laws a subject breaks, and which it keeps, case by case."""

    def __init__(self, bench: Bench, failure: Failure, seed: int, further: Sequence[Sample] = ()) -> None:
        """They are the smallest cases of all scenarios, and some `further` ones."""
        self.bench = bench
        self.grade = bench.subject.claims.grade(bench.dtype)
        drawn = plan(bench.mechanism, bench.subject.claims, PROFILES["quick"], seed, bench.dtype).scenarios
        small = sorted((s for s in drawn if s.entries <= SIGNED_ENTRIES), key=lambda sample: sample.entries)
        samples = [*list(dict.fromkeys((failure.found, *small)))[:CASES], *further]
        self.means = [(sample, means(bench, sample)) for sample in drawn if sample.entries <= COUNTED]
        self.many = [sample for sample in drawn if max(sample.values[n] for n in bench.mechanism.sizes) >= MANY]
        laws = sorted(bench.mechanism.laws.values(), key=lambda law: law.name != failure.law)
        questions = [(law, sample) for law in laws for sample in samples]
        found = [(question, self.verdict(bench, *question)) for question in questions]
        self.broken = [question for question, broken in found if broken]
        self.kept = [question for question, broken in found if broken is False]

    def verdict(self, bench: Bench, law: Law, sample: Sample) -> bool | None:
        """Whether a law is broken on a case; None where it does not say."""
        try:
            outcome = judged(Trial(bench, sample), law, [self.grade])
        except SpecError:
            return None
        return outcome.bad if outcome.bad or outcome.kind is Kind.HELD else None

    def same(self, candidate: Candidate) -> bool:
        """Whether a candidate breaks the same laws on the same cases, and the means of its outputs are the same."""
        if candidate.function is not None or candidate.dense or candidate.place or candidate.only or candidate.each:
            return False
        if not all(_like_means(own, means(self.of(candidate, sample), sample)) for sample, own in self.means):
            return False
        same = all(self.verdict(self.of(candidate, x), law, x) for law, x in self.broken) and not any(
            self.verdict(self.of(candidate, x), law, x) for law, x in self.kept
        )
        return same and all(like_rows(own, rows(self.of(candidate, x), x)) for x, own in self.rows)

    def of(self, candidate: Candidate, sample: Sample) -> Bench:
        """A candidate as a subject, on a case and what laws make of it."""
        return replace(self.bench, subject=Made(self.bench, candidate, sample), faults=Counter())

    @cached_property
    def rows(self) -> list[tuple[Sample, Counter[bytes]]]:
        """How often the subject returns each row of integers in calls of many."""
        return [(sample, rows(self.bench, sample)) for sample in self.many]


class Made(DefinitionSubject):
    """A candidate as a subject, which is made where its condition holds."""

    def __init__(self, bench: Bench, candidate: Candidate, sample: Sample) -> None:
        words = {**bench.words, **candidate.words}
        super().__init__(bench.mechanism, candidate.name, candidate.changes, conventions=words)
        self.where, self.sample = candidate.where, sample

    def frame(
        self, call: Call, changes: Mapping[str, Any], unchanged: Frame | None = None, *, beside: Frame | None = None
    ) -> Frame:
        values = {**self.mechanism.defaults, **call.options, **call.inputs}
        made = self.where is None or self.where.holds(facts_of(self.sample, values))
        return super().frame(call, changes if made else {}, unchanged, beside=beside)


Means = Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


def means(bench: Bench, sample: Sample) -> Means | None:
    """Of every output of a call some means over its rows, and their variances; None where it has no result."""
    trial = Trial(bench, sample)
    try:
        outputs = trial.reply(trial.base).outputs
    except (Declined, Faulted):
        return None
    return {name: _shares(x) if x.dtype.kind in "iu" else _means(x.astype(float)) for name, x in outputs.items()}


def _shares(x: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How often each integer stands in a row, and the variances of that; the entries of a row are drawn apart."""
    rows = np.atleast_2d(x)
    share = np.stack([(rows == n).mean(-1) for n in range(MOST)], -1)
    count = rows.shape[-1]
    return share, share * (1 - share) / count + count**-2.0


def _means(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The means of entries, sizes, squares, zeros and of what is not a number; the entries of a row may go together."""
    finite = np.where(np.isfinite(x), x, 0.0)
    parts = np.atleast_3d([finite, np.abs(finite), finite**2, finite == 0, ~np.isfinite(x)]).astype(float)
    rows = parts.mean(-1).reshape(len(parts), -1)
    return rows.mean(-1), rows.var(-1) / rows.shape[-1]


def rows(bench: Bench, sample: Sample) -> Counter[bytes]:
    """How often each row of integers is returned, in calls with several seeds; nothing where there are few rows.

    Calls that return the same are counted once.
    """
    trial, found = Trial(bench, sample), dict[bytes, Counter[bytes]]()
    for seed in range(SEEDS) if "seed" in bench.mechanism.options else ():
        try:
            outputs = trial.reply(trial.settle({"seed": seed})).outputs
        except (Declined, Faulted, SpecError):
            continue
        parts = [x.reshape(len(x), -1) for x in outputs.values() if x.ndim and x.dtype.kind in "iu"]
        if len(parts) == len(outputs) and {len(x) for x in parts} == {max(MANY, len(parts[0]))}:
            whole = np.concatenate([x.astype(np.int64) for x in parts], 1)
            found[whole.tobytes()] = Counter(row.tobytes() for row in whole)
    return sum(found.values(), Counter())


def like_rows(one: Counter[bytes], other: Counter[bytes]) -> bool:
    """Whether each row is returned as often, as near as chance allows."""
    if not one or not other:
        return True
    known = sorted(one.keys() | other.keys())
    (x, m), (y, n) = ((np.array([each[row] for row in known]), each.total()) for each in (one, other))
    x, y = x / m, y / n
    return _near(x, x * (1 - x) / m + m**-2.0, y, y * (1 - y) / n + n**-2.0)


def _like_means(one: Means | None, other: Means | None) -> bool:
    """Whether all means are as near as chance allows, as far as both have a result."""
    if one is None or other is None:
        return True
    return all(_near(*one[name], *other[name]) for name in one.keys() & other.keys())


def _near(x: Any, x_variance: Any, y: Any, y_variance: Any) -> bool:
    if x.shape != y.shape:
        return False
    return bool(np.all(np.abs(x - y) <= SIGMAS * np.sqrt(x_variance + y_variance) + TINY))
