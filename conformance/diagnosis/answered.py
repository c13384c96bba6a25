"""The calls that a subject has answered, or raises an error on: failing ones, and the scenarios of its mechanism."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace as replaced

from ..cases.plans import plan, scenarios_of
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..errors import SpecError
from ..judging.bench import ANSWERED, Bench
from ..judging.cells import Failure, law_of
from ..judging.judge import judged
from ..judging.trial import Tracing, Trial
from ..numerics.grades import Grade
from .chance import drawn
from .clock import now
from .observations import Observation
from .steering import EXPLAINED_ENTRIES, as_case

TRACED = 8
"""The smallest cases of which laws make calls that are determined."""
SECONDS = 0.5
"""CPU time after which no further one is looked at."""


def observed(bench: Bench, failure: Failure, seed: int) -> list[Observation]:
    """The calls that a subject has answered: those that failed, and the scenarios of the mechanism and its kin."""
    grade = bench.subject.claims.grade(bench.dtype)
    if bench.mechanism.undetermined and bench.mechanism.stochastic:
        return [*determined(bench, failure, grade, seed)]
    known = scenarios(bench, (failure.sample, failure.found), grade, seed)
    return [*_failing(bench, failure, grade), *known]


def determined(bench: Bench, failure: Failure, grade: Grade, seed: int) -> Iterator[Observation]:
    """The calls of what draws random numbers whose outputs do not depend on them, as far as they are answered.

    They are scenarios, and calls that the laws make of the smallest cases.
    """
    yield from scenarios(bench, (), grade, seed)
    m, claims, known = bench.mechanism, bench.subject.claims, set[str]()
    small = [o.trial.sample for o in _scenarios(bench, (), grade, seed) if o.mechanism is m][:TRACED]
    until = now() + SECONDS
    for sample in dict.fromkeys((failure.sample, failure.found, *small)):
        if now() > until:
            return
        trial = Tracing(bench, sample)
        for law in m.laws.values():
            with contextlib.suppress(SpecError):
                judged(trial, law, [grade])
        for settled in trial.asked.values():
            case = as_case(sample, settled.values, claims) if settled.key and not drawn(trial, settled) else None
            if case is not None and case.key not in known:
                known.add(case.key)
                own = Trial(bench, case)
                observation = Observation(own, own.base, grade)
                if observation.answered():
                    yield observation


def _failing(bench: Bench, failure: Failure, grade: Grade) -> Iterator[Observation]:
    """The calls that the broken law makes of the failing case and that are answered."""
    return (o for o in _made(bench, failure, grade) if o.answered())


def _made(bench: Bench, failure: Failure, grade: Grade) -> Iterator[Observation]:
    """The calls that the broken law makes of the failing case, as it was found and as it was made small."""
    law = law_of(bench.mechanism, failure.law)
    for sample in dict.fromkeys((failure.sample, failure.found)):
        trial = Tracing(bench, sample)
        if law is not None and law.name != "definition":
            with contextlib.suppress(SpecError):
                judged(trial, law, [grade])
        for settled in {(): trial.base, **trial.asked}.values():
            yield Observation(trial, settled, grade)


def raising(bench: Bench, failure: Failure, grade: Grade) -> Iterator[Observation]:
    """The calls of the failing case on which the subject raises an error, if it does so more often than not."""
    fault = failure.outcome.fault
    if fault is not None and fault.kind == "raised" and bench.faults["raised"] > bench.faults[ANSWERED]:
        yield from (o for o in _made(bench, failure, grade) if o.raises())


def scenarios(bench: Bench, apart_from: Sequence[Sample], grade: Grade, seed: int) -> Iterator[Observation]:
    """The scenarios of the mechanism and its kin that the subject answers, the smallest first.

    Of what is sparing with shapes they are those of the mechanism alone.
    """
    return (o for o in _scenarios(bench, apart_from, grade, seed) if o.answered())


def scenarios_raising(bench: Bench, grade: Grade, seed: int) -> Iterator[Observation]:
    """The scenarios of the mechanism alone on which the subject raises an error and the definition has a value."""
    own = (o for o in _scenarios(bench, (), grade, seed) if o.mechanism is bench.mechanism)
    return (o for o in own if o.raises() and o.defined())


def _scenarios(bench: Bench, apart_from: Sequence[Sample], grade: Grade, seed: int) -> Iterator[Observation]:
    """The scenarios that are small enough, as calls that are not made yet."""
    m, claims = bench.mechanism, bench.subject.claims
    known: Iterable[Sample] = scenarios_of(m, claims, seed=seed, dtype=bench.dtype)
    if claims.sparing:
        known = plan(m, claims, PROFILES["quick"], seed, bench.dtype).scenarios
    for sample in sorted(known, key=lambda sample: sample.entries):
        if bench.faults["hung"] or bench.deadly:
            return
        if sample.entries <= EXPLAINED_ENTRIES and sample not in apart_from:
            trial = Trial(replaced(bench, mechanism=sample.mechanism), sample)
            yield Observation(trial, trial.base, grade)
