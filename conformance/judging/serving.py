"""The verdicts on production-size cases, one for each case."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..cases.large import LargeSample, large_sample
from ..errors import SpecError
from ..mechanisms.mechanism import Assignments
from ..mechanisms.serving import Company, at_tiles, has_tiles, invariance, serving, threads
from ..numerics import budget
from .bench import Bench
from .cells import BOUNDS, LARGE, THREADS, TILES, Cell, Failure, Request
from .course import Course
from .invariance import batches, chunks, feedings
from .judge import Kind, Outcome
from .large import Judged, Large, Unroomy
from .recognition import recognized
from .settling import Declined

TURNS = 20
"""How often a call is made beside other threads."""
SECONDS = 20.0
"""How long the rows of one case are compared with the definition; those that are left then are not."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one case, and why there is no verdict on it if there is none."""

    verdict: str
    says: str = ""
    sample: LargeSample | None = None
    found: Judged | None = None

    @property
    def bad(self) -> bool:
        return self.verdict in ("fail", "error")


def served(seen: Course) -> Iterator[Cell]:
    """The cells of the large cases that are asked for; what is beyond arrays is asked of some of them."""
    tried, cases, bounds = list[Tried](), serving(seen.mechanism), seen.request.wants(BOUNDS)
    wanted = [name for name in cases if seen.request.wants(f"{LARGE}{name}")]
    for name in wanted or (cases if bounds else ()):
        tried.append(_tried(seen, name, cases[name]))
        cell = _cell(seen, f"{LARGE}{name}", [tried[-1]])
        if wanted:
            yield cell
        beyond = tried[-1].found is not None and bool(tried[-1].found.beyond)
        if (cell.bad and seen.request.first) or (beyond and not wanted):
            break
    if cases and bounds:
        yield _bounds(seen, tried)
    yield from _invariance(seen)
    yield from _threads(seen)
    if has_tiles(seen.mechanism) and seen.request.wants(f"{LARGE}{TILES}"):
        yield _cell(seen, f"{LARGE}{TILES}", [*_at_tiles(seen)])


def _threads(seen: Course) -> Iterator[Cell]:
    """The cell of calls of several threads at once: a contract where it is claimed, and else what was seen."""
    assigned, request = threads(seen.mechanism), seen.request
    if assigned is None or not request.wants(THREADS):
        return
    claims = seen.subject.claims
    sample = large_sample(seen.mechanism, "threads", assigned, claims, request.dtype, request.seed)
    late = request.deadline is not None and time.monotonic() > request.deadline
    if late or isinstance(sample, str):
        yield made(
            seen,
            THREADS,
            Tried("not_tested", "the time limit was reached") if late else Tried("not_declared", str(sample)),
        )
    else:
        yield _beside_threads(seen, sample)


def _beside_threads(seen: Course, sample: LargeSample) -> Cell:
    """The cell of one case, which is asked of a subject that is right on it by itself."""
    alone = judged_large(seen, sample)
    if alone.verdict != "pass":
        return made(seen, THREADS, replace(alone, verdict="not_tested", says=f"by itself: {alone.says}", found=None))
    found = judged_large(seen, sample, max(TURNS, seen.request.stress))
    if seen.subject.claims.thread_safe or found.found is None:
        return made(seen, THREADS, found, cases=1)
    says = f"wrong, {found.found.unsteady}" if found.bad else "right beside calls of other threads"
    seen.observed.append(f"{seen.mechanism.name} in {seen.bench.dtype}: {says}")
    return made(seen, THREADS, Tried("not_declared", says))


def _invariance(seen: Course) -> Iterator[Cell]:
    """The cells of what the bits of rows may depend on."""
    for kind, company in invariance(seen.mechanism).items():
        law = f"contract.{kind}_invariant"
        if not seen.request.wants(law):
            continue
        if seen.request.deadline is not None and time.monotonic() > seen.request.deadline:
            yield made(seen, law, Tried("not_tested", "the time limit was reached"))
            continue
        name, claims = f"{kind}_invariant", seen.subject.claims
        sample = large_sample(seen.mechanism, name, company.assigned, claims, seen.request.dtype, seen.request.seed)
        if isinstance(sample, str):
            yield made(seen, law, Tried("not_declared", sample))
        else:
            yield _invariant(seen, kind, company, sample)


def _invariant(seen: Course, kind: str, company: Company, sample: LargeSample) -> Cell:
    """The cell of one of them: a contract where it is claimed, and else what was seen."""
    law, claimed = f"contract.{kind}_invariant", kind in seen.subject.claims.invariant
    try:
        with budget.roomy(seen.request.memory):
            look = feedings if company.option else batches if kind == "batch" else chunks
            found = look(seen.bench, sample, company)
    except (Declined, SpecError) as answer:
        return made(seen, law, Tried("not_tested", str(answer).splitlines()[0]))
    if not claimed:
        seen.observed.append(f"{seen.mechanism.name} in {seen.bench.dtype}: {found.says}")
        return made(seen, law, Tried("not_declared", found.says))
    verdict = Tried("pass" if found.same else "fail", found.says, sample)
    return made(seen, law, verdict, cases=found.calls)


def served_again(request: Request, bench: Bench, law: str, sample: LargeSample) -> Cell:
    """The cell of a law on one case that was kept, by the words of a bench."""
    seen = Course(request, {})
    seen.bench = bench
    if law == THREADS:
        return _beside_threads(seen, sample)
    for kind, company in invariance(seen.mechanism).items():
        if law == f"contract.{kind}_invariant":
            return _invariant(seen, kind, company, sample)
    tried = judged_large(seen, sample, request.stress)
    return _bounds(seen, [tried]) if law == BOUNDS else _cell(seen, law, [tried])


def _at_tiles(seen: Course) -> Iterator[Tried]:
    """What comes of lengths on both sides of the tiles that the subject declares, up to the first wrong one."""
    claims = seen.subject.claims
    if not claims.tiles:
        yield Tried("not_declared", "declares no tiles")
    for name, assigned in at_tiles(seen.mechanism, claims.tiles, claims.splits).items():
        found = _tried(seen, name, assigned)
        yield found
        if found.bad:
            return


def _tried(seen: Course, name: str, assigned: Assignments) -> Tried:
    request = seen.request
    if request.deadline is not None and time.monotonic() > request.deadline:
        return Tried("not_tested", "the time limit was reached")
    sample = large_sample(seen.mechanism, name, assigned, seen.subject.claims, request.dtype, request.seed)
    if isinstance(sample, str):
        return Tried("not_declared", sample)
    found = judged_large(seen, sample, request.stress)
    if found.found is not None and found.found.unsteady:
        seen.observed.append(f"{sample.case.label} in {request.dtype}: {found.found.unsteady}")
    if found.found is not None and found.found.unlike:
        says = f"other bits of {found.found.unlike} in the same call once more"
        seen.observed.append(f"{sample.case.label} in {request.dtype}: {says}")
    return found


def judged_large(seen: Course, sample: LargeSample, turns: int = 0) -> Tried:
    """What comes of one large case, which is made so often beside other threads."""
    more: dict[str, Any] = {"memory": seen.request.memory, "seconds": SECONDS, "turns": turns}
    grades = seen.grades[seen.grades.index(seen.tolerated) :] if seen.tolerated in seen.grades else seen.grades
    try:
        found = Large(seen.bench, sample, **more).judged(grades)
    except Declined as answer:
        return Tried("not_declared", str(answer))
    except (Unroomy, SpecError) as answer:
        return Tried("not_tested", str(answer).splitlines()[0])
    seen.large.append((sample, found.kind))
    verdict = {Kind.FAULTED: "error", Kind.REFUTED: "fail", Kind.HELD: "pass"}[found.kind]
    return Tried(verdict, _told(found, sample.case.label), sample, found)


def _told(found: Judged, label: str) -> str:
    if found.fault is not None or found.beyond:
        return f"{label}: {found.says}"
    beside = f"in a turn beside other threads ({found.unsteady})" if found.unsteady else ""
    part = "" if found.seen == found.rows else f"{found.seen} of {found.rows} rows were compared with the definition"
    if not found.refuted:
        return part
    how = f"the error is {found.excess:.3g} x the bound"
    return "; ".join(filter(None, [f"{label}: {found.says}", how, part, beside]))


def _cell(seen: Course, law: str, tried: list[Tried]) -> Cell:
    """The cell of cases: that of the first wrong one, or of all that were judged, or why none was."""
    judged = [one.found for one in tried if one.found is not None]
    shown = next((one for one in tried if one.bad), tried[-1])
    if judged and not shown.bad:
        shown = next(one for one in reversed(tried) if one.found is not None)
    found = shown.found
    worst = max((each.excess for each in judged), default=0.0) if not shown.bad else found.excess if found else 0.0
    return made(seen, law, shown, cases=len(judged), worst=worst)


def _bounds(seen: Course, tried: list[Tried]) -> Cell:
    """The cell of what was read or written beyond arrays."""
    judged = [one for one in tried if one.found is not None]
    beyond = next((one for one in judged if one.found is not None and one.found.beyond), None)
    shown = beyond or Tried("pass" if judged else "not_tested")
    return made(seen, BOUNDS, shown, cases=len(judged))


def made(seen: Course, law: str, shown: Tried, **more: Any) -> Cell:
    """The cell of what came of a case."""
    r, m = seen.request, seen.mechanism
    failure, found = None, shown.found
    if shown.bad and shown.sample is not None:
        grade = seen.tolerated if found is not None and found.worst is not None else None
        outcome = Outcome(Kind.REFUTED, np.inf, says=shown.says)
        if found is not None:
            outcome = Outcome(found.kind, found.excess, grade, shown.says, fault=found.fault)
        finding = recognized(r.marks, seen.bench, law, outcome, shown.sample)
        failure = Failure(law, outcome, shown.sample, shown.sample, finding=finding, large=found)
    place = (r.subject.name, m.operator, m.name, law, "must", r.dtype, r.device)
    return Cell(*place, shown.verdict, says=shown.says, failure=failure, **more)
