"""How groups are run, and how their cells become plain data."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..cases.plans import beyond_limits, directed
from ..cases.profiles import Profile, profile_named
from ..data.plain import cause_of, storable, trace_of
from ..data.texts import safe
from ..diagnosis.clock import now
from ..diagnosis.history import prepared, retraced
from ..diagnosis.likeness import Likeness, Nearest
from ..diagnosis.maps import mapped
from ..diagnosis.naming import diagnose, observed
from ..diagnosis.observations import Observation
from ..diagnosis.scale import from_which_sizes, wrong_rows
from ..diagnosis.separation import When, separated
from ..diagnosis.witness import describe, finite_or_none
from ..frameworks.framework import kind_of
from ..judging.cells import Cell, Failure, Request, Result, is_large, law_of, sentence_of
from ..judging.conventions import Finding
from ..judging.engine import run
from ..judging.layouts import taken_told
from ..judging.recognition import Mark
from ..judging.shrinking import made_small
from ..mechanisms.evidence import Evidence, evidence_of
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.workloads import Workload
from ..numerics.grades import coarser
from ..reporting.findings import marks
from ..reporting.records import CellLine
from ..subjects.subject import AdapterSubject
from .groups import Group, library_of, waivers_file
from .options import OPTIONS, Options
from .pins import Pin
from .pins import read as read_pin
from .waivers import Waiver, excused, today, waivers_of
from .workload import asked, calls_in

T = TypeVar("T")
SHIPPED = "attnspec.adapters."
"""What the names of modules begin with whose adapters come along."""
BLOCKS = 3
"""Failures of one subject that are made small and explained in full."""


@dataclass(slots=True)
class Runner:
    """Runs groups, each once, and keeps what they gave."""

    options: Options
    profile: Profile = field(init=False)
    deadline: float | None = field(init=False)
    waivers: tuple[Waiver, ...] = field(init=False)
    pin: Pin | None = field(init=False)
    workload: Workload | None = field(init=False)
    results: dict[tuple[str, ...], list[CellLine]] = field(default_factory=dict)
    explained: dict[str, set[str]] = field(default_factory=dict)
    """What has been shown in full of each subject: one fault gets one block."""
    announce: Callable[[Cell], None] | None = None
    """Who is told of the first failure of a group before it is explained, which takes longer than to find it."""

    def __post_init__(self) -> None:
        self.profile = profile_named(self.options.profile)
        self.workload = asked(self.options, library_of(self.options))
        path = waivers_file(self.options)
        self.waivers = waivers_of(path, library_of(self.options)) if path is not None else ()
        self.pin = read_pin(Path(self.options.pin)) if self.options.pin else None
        self.deadline = None if self.options.max_time is None else time.monotonic() + self.options.max_time

    def cells(self, group: Group, laws: Collection[str] | None = None) -> list[CellLine]:
        """The cells of a group as plain data, in the order of its laws, computed when first asked for.

        Where attnspec itself fails, it costs the cells of the group and no others.
        """
        if group.key not in self.results:
            wanted = group.laws if laws is None else laws
            try:
                found = {cell["law"]: cell for cell in self._run(group, wanted)}
                self.results[group.key] = [found[law] for law in group.laws if law in found]
            except Exception as error:
                says, trace = cause_of(error), trace_of(error)
                broken = [group.internal(law, self.options.device, says, trace) for law in wanted]
                self.results[group.key] = broken
        return self.results[group.key]

    def _run(self, group: Group, laws: Collection[str]) -> Iterator[CellLine]:
        request = Request(
            group.subject,
            group.mechanism,
            group.dtype,
            self.profile,
            self.options.device,
            self.options.seed,
            frozenset(laws),
            self.deadline,
            marks=marks_of(group),
            memory=int(self.options.memory * 2**30),
            stress=self.options.stress,
            workload={} if self.workload is None else calls_in(self.workload, group.mechanism.name, group.dtype),
            spread=True,
            dtypes=tuple(self.options.dtypes),
        )
        result = excused(run(request), self.waivers, today(), self.options.seed)
        result = result if self.pin is None else self.pin.applied(result, group)
        failed = [c for c in result.cells if c.bad and c.failure is not None and (c.note or self.counts(c.level))]
        head = headline(failed, group.mechanism) if failed and result.bench is not None else None
        if head is not None and self.announce is not None:
            self.announce(head)
        for cell in result.cells:
            data = cell_data(cell, group, result)
            if head is not None and cell is head:
                data |= self._explained(group, result, failed, head)
            yield storable(data)

    def _explained(self, group: Group, result: Result, failed: Sequence[Cell], head: Cell) -> dict[str, Any]:
        """The failure that represents all of the group, explained; the others are listed under it.

        What goes wrong in explaining it is told under `unexplained`: the verdict stands.
        """
        bench, first, shown = result.bench, head.failure, self.explained.setdefault(group.name, set())
        assert bench is not None
        assert first is not None
        steps = Steps()
        likeness = seen = when = None
        calls: Sequence[Observation] = []
        after = ""
        failure, room = first, len(shown) < BLOCKS and self.options.explain_time > 0
        others, seed = [c.law for c in failed if c is not head and c.finding == head.finding], self.options.seed
        times = self._times
        with group.subject.session():
            if room and first.large is not None:
                seen = wrong_rows(first)
                when = steps.tried(lambda: self._at_scale(result, first))
            elif room:
                failure = steps.tried(lambda: made_small(first, result)) or first
                again = (
                    steps.tried(lambda: retraced(bench, failure, result, self.deadline)) if failure.dependent else None
                )
                failure, after = (again.failure, again.says) if again else (failure, "")
            lawful = head.law == "contract.precision" or law_of(group.mechanism, first.law) is not None
            begin = now()
            if room and lawful and first.large is None:
                calls = steps.tried(lambda: observed(bench, failure, seed)) or []
                likeness = steps.tried(
                    lambda: diagnose(bench, failure, seed, observations=calls, times=times, likely=shown)
                )
            faults = _faults(likeness) if isinstance(likeness, Likeness) else {_unnamed(group, head)}
            full = room and not faults & shown
            if full and lawful and first.large is None:  # of what has a block already, where it is wrong is told there
                seen = steps.tried(lambda: mapped(bench, failure, seed))
                left = self.options.explain_time - (now() - begin)
                when = steps.tried(lambda: self._when(result, head, failure, calls, left, likeness))
            if failure.retraced:
                steps.tried(lambda: prepared(bench, failure.before))
            data = steps.tried(
                lambda: storable(describe(failure, bench, group.target, likeness, others, seen, when, after))
            )
            if data is None:
                data = steps.tried(lambda: storable(describe(first, bench, group.target, None, others)))
        found: dict[str, Any] = {"unexplained": steps.failed} if steps.failed else {}
        if data is not None:
            data |= {} if group.source is None else {"target": group.source or group.target, "alone": not group.source}
            found["witness"] = {**data, "full": full}
        shown |= faults
        return found

    def _at_scale(self, result: Result, failure: Failure) -> When | None:
        """The condition under which a subject is wrong at the sizes of production."""
        assert result.bench is not None
        memory = int(self.options.memory * 2**30)
        return from_which_sizes(result.bench, failure, result, self.options.seed, memory, self.deadline)

    def _when(
        self,
        result: Result,
        head: Cell,
        failure: Failure,
        calls: Sequence[Observation],
        left: float,
        likeness: Likeness | Nearest | None,
    ) -> When | None:
        """The condition under which a subject is wrong; precision and what earlier calls do are another matter."""
        if head.law == "contract.precision" or failure.dependent or result.bench is None:
            return None
        seed, deadline, times = self.options.seed, self.deadline, self._times
        return separated(
            result.bench,
            failure,
            result,
            seed,
            observations=calls,
            deadline=deadline,
            times=times,
            left=left,
            likeness=likeness,
        )

    @property
    def _times(self) -> float:
        """How many times as long as usual an explanation may take."""
        return self.options.explain_time / float(OPTIONS["explain_time"].default)

    def counts(self, level: str, note: str = "") -> bool:
        """Whether a failure at this level makes a subject violated, if it is no note."""
        return not note and (level == "must" or self.options.fail_on == "should")

    def excuses(self, cell: Mapping[str, Any]) -> str:
        """The known finding for whose sake a failure does not fail the run; nothing if it does."""
        return cell.get("finding", "") if self.options.fail_on == "new" else ""


@dataclass(slots=True)
class Steps:
    """Steps of an explanation, each of which may fail without the others."""

    failed: list[dict[str, str]] = field(default_factory=list)

    def tried(self, step: Callable[[], T]) -> T | None:
        try:
            return step()
        except Exception as error:
            self.failed.append({"says": cause_of(error), "trace": trace_of(error)})
            return None


def _faults(likeness: Likeness) -> set[str]:
    """What a likeness may be called, the same for mistakes that several mechanisms have in common."""
    return {name.partition(".")[2] or name for name in (likeness.name, *likeness.others)}


def _unnamed(group: Group, head: Cell) -> str:
    """What represents a fault without a name: one that breaks the definition is the same in all of an operator."""
    if head.law == "definition":
        return f"{group.mechanism.operator}.{head.law}.{head.verdict}"
    return f"{group.mechanism.name}.{head.law}"


def headline(failed: Sequence[Cell], mechanism: Mechanism) -> Cell:
    """The failure that says most: what is new, a law before the definition, and those before contracts and rejects.

    Of a call without an answer no law says more than the definition, which asks for one call and no other.
    """

    def rank(cell: Cell) -> tuple[int, bool, int]:
        if cell.law.startswith(("contract.", "convention.")) or cell.law in mechanism.rejects:
            return cell.level != "must", bool(cell.finding), 3
        return (
            cell.level != "must",
            bool(cell.finding),
            1 if cell.law == "definition" else 2 if cell.verdict == "error" or is_large(cell.law) else 0,
        )

    return min(failed, key=rank)


def cell_data(cell: Cell, group: Group, result: Result) -> dict[str, Any]:
    """A cell as one line of the results."""
    data: dict[str, Any] = {
        "kind": "cell",
        "subject": group.name,
        "operator": cell.operator,
        "mechanism": cell.mechanism,
        "law": cell.law,
        "level": cell.level,
        "dtype": cell.dtype,
        "device": cell.device,
        "verdict": cell.verdict,
        "cases": cell.cases,
        "worst": finite_or_none(cell.worst),
        "says": cell.says,
        "version": group.mechanism.version,
        "digest": group.mechanism.digest,
    }
    if cell.bad:
        data["sentence"] = sentence_of(group.mechanism, cell.law)
    if cell.finding:
        data["finding"] = cell.finding
    if cell.note:
        data["note"] = cell.note
    if cell.margins is not None and cell.margins.counts.any():
        data["spread"] = cell.margins.counts.tolist()
    if cell is result.cells[0]:
        data["run"] = {
            "cases": result.cases,
            "calls": result.calls,
            "seconds": round(result.seconds, 4),
            "grade": result.grade.name if result.grade else "",
            "partial": result.partial,
            "ended": result.ended,
            "conventions": {name: convention_data(f) for name, f in result.conventions.items()},
        }
        data["run"] |= taken_data(group)
        known = evidence_of(group.mechanism)
        data["run"] |= coverage_data(group, result)
        data["run"] |= {"interpreted": by} if (by := interpreted_by(group, cell.device)) else {}
        data["run"] |= {"mended": mended} if (mended := unseen(result)) else {}
        data["run"] |= errors_data(result)
        data["run"] |= times_data(result)
        if known is not None and result.bench is not None and any(c.law == "definition" for c in result.cells):
            data["run"]["evidence"] = evidence_data(known, group, result)
    return data


def taken_data(group: Group) -> dict[str, Any]:
    """How a subject is called, where that is not as its operator has it; and what is to be said of it."""
    subject = group.subject
    if not isinstance(subject, AdapterSubject):
        return {}
    layout, taken = subject.form.layout, subject.form.taken
    found = {
        "layout": "" if layout.canonical else layout.name,
        "like": taken.signature.name if taken else "",
        "taken": taken_told(subject),
    }
    return {name: x for name, x in found.items() if x}


def marks_of(group: Group) -> tuple[Mark, ...]:
    """By what the failures are recognized that are known of a shipped adapter; of others nothing is known."""
    adapter = group.subject.adapter if isinstance(group.subject, AdapterSubject) else None
    if adapter is None or not adapter.module.startswith(SHIPPED):
        return ()
    return marks(group.name, group.mechanism, group.dtype)


def unseen(result: Result) -> list[str]:
    """The known findings whose condition was met, and whose laws all hold nevertheless."""
    verdicts: dict[str, set[str]] = {}
    for mark in result.marks:
        if mark.finding in result.met:
            own = {cell.verdict for cell in result.cells if cell.law in mark.laws}
            verdicts.setdefault(mark.finding, set()).update(own)
    return [finding for finding, own in verdicts.items() if own == {"pass"}]


def coverage_data(group: Group, result: Result) -> dict[str, Any]:
    """What was refused, claimed and left aside, as far as there is any of it."""
    claims, refusals = group.subject.claims, result.refusals
    answered, refused = len({*refusals.answered}), len(refusals.refused)
    grade = claims.grade(group.dtype)
    found: dict[str, Any] = {
        "claimed": grade.name if coarser(group.dtype, grade) else "",
        "untested": list(claims.untested),
        "notes": [*group.notes, *result.observed],
    }
    if answered or refused:
        found["coverage"] = {
            "answered": answered,
            "scenarios": answered + refused,
            "share": group.mechanism.answered,
            "says": next(iter(refusals.refused.values()), ""),
            "by_value": list(refusals.by_value),
            "given": sorted(refusals.given),
        }
    return {name: part for name, part in found.items() if part}


def interpreted_by(group: Group, device: str) -> str:
    """What runs the kernels of a subject in place of a device, as it declares; nothing where there is one."""
    adapter = group.subject.adapter if isinstance(group.subject, AdapterSubject) else None
    return safe(adapter.interpreted) if adapter and kind_of(device) == "cpu" else ""


def errors_data(result: Result) -> dict[str, Any]:
    """How far the worst cases are from the definition, by length and size of scores, of those that keep it.

    One that is not finite can be neither drawn nor kept as JSON.
    """
    margins = next((cell.margins for cell in result.cells if cell.law == "definition"), None)
    own = sorted(margins.cases, key=lambda case: case.length) if margins else []
    found = [
        {"case": c.case, "length": c.length, "units": _short(c.worst), "row": c.row, "rows": c.rows}
        | ({"score": _short(c.score)} if c.score and np.isfinite(c.score) else {})
        for c in own
        if np.isfinite(c.worst)
    ]
    return {"errors": found} if found else {}


def times_data(result: Result) -> dict[str, Any]:
    """How long calls took: their quartiles, in seconds."""
    if not result.times:
        return {}
    quartiles = np.percentile(result.times, (25, 50, 75))
    return {"times": dict(zip(("low", "median", "high"), map(_short, quartiles), strict=True))}


def _short(x: float) -> float:
    """A number by its first three digits."""
    return float(f"{x:.3g}")


def evidence_data(known: Evidence, group: Group, result: Result) -> dict[str, Any]:
    """What the scenarios that were answered would have shown: how many known mistakes, and which of them not."""
    claimed = {case.label for case in directed(group.mechanism, group.subject.claims, 0)}
    beyond = known.unshown(claimed, group.dtype)
    answered = set(result.refusals.answered) - set(beyond_limits(group.mechanism, group.subject.claims, group.dtype))
    unshown = [name for name in known.unshown(answered, group.dtype) if name not in beyond]
    return {
        "scenarios": len(result.refusals.answered),
        "mistakes": len(known.shows),
        "unclaimed": len(beyond),
        "unshown": unshown,
    }


def convention_data(finding: Finding) -> dict[str, Any]:
    return {"word": finding.word, "how": finding.how, "agreed": finding.agreed, "cases": finding.cases}
