"""The verdicts on recorded calls, one for each call, the most frequent first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from ..cases.drawing import seed_of
from ..cases.large import LargeSample
from ..cases.samples import Sample
from ..cases.workloads import worked_sample
from ..errors import SpecError
from ..mechanisms.workloads import Use
from .cells import Cell, Failure
from .course import Course
from .judge import Kind, definition_law, judged
from .recognition import recognized
from .serving import Tried, judged_large, made
from .trial import Trial

VERDICTS = {Kind.HELD: "pass", Kind.REFUTED: "fail", Kind.FAULTED: "error", Kind.DECLINED: "not_declared"}
"""What is told of how the definition fares; of anything else, that it was not tested."""
TURNS = 3
"""Other entries on which what may be chance is tried again."""


def worked_through(seen: Course) -> Iterator[Cell]:
    """The cells of all calls that a request has."""
    for law, use in seen.request.workload.items():
        yield _on(seen, law, use)


def _on(seen: Course, law: str, use: Use) -> Cell:
    request = seen.request
    if request.deadline is not None and time.monotonic() > request.deadline:
        return made(seen, law, Tried("not_tested", "the time limit was reached"))
    sample = worked_sample(seen.mechanism, use, seen.subject.claims, request.dtype, request.seed)
    if isinstance(sample, str):
        return made(seen, law, Tried("not_declared", sample))
    if isinstance(sample, LargeSample):
        tried = judged_large(seen, sample, request.stress)
        worst = tried.found.excess if tried.found is not None else 0.0
        return made(seen, law, tried, cases=int(tried.found is not None), worst=worst)
    try:
        return _whole(seen, law, sample)
    except SpecError as error:  # it is beyond what an evaluation may take
        return made(seen, law, Tried("not_tested", str(error).splitlines()[0]))


def _whole(seen: Course, law: str, sample: Sample) -> Cell:
    """The cell of a call that is judged entry by entry, at the precision that is claimed."""
    definition = definition_law(seen.mechanism)
    trial = Trial(seen.bench, sample)
    outcome = judged(trial, definition, seen.grades[:1])
    if outcome.kind is Kind.REFUTED and not outcome.certain and not _again(seen, sample):
        outcome = replace(outcome, kind=Kind.HELD)
    seen.outcomes.append((sample, outcome.kind))
    verdict, says = VERDICTS.get(outcome.kind, "not_tested"), "" if outcome.kind is Kind.HELD else outcome.says
    cell = made(seen, law, Tried(verdict, says), cases=1, worst=outcome.excess)
    if not outcome.bad:
        return cell
    finding = recognized(seen.request.marks, seen.bench, law, outcome, sample)
    return replace(cell, failure=Failure(definition.name, outcome, sample, sample, finding=finding))


def _again(seen: Course, sample: Sample) -> bool:
    """Whether what exceeds the likely bound alone does so on other entries, too."""
    for turn in range(TURNS):
        case = replace(sample.case, seed=seed_of(sample.case.seed, "again", turn))
        fresh = Sample(seen.mechanism, case, seen.request.dtype)
        if judged(Trial(seen.bench, fresh), definition_law(seen.mechanism), seen.grades[:1]).kind is Kind.REFUTED:
            return True
    return False
