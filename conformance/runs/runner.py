"""What a run consists of: groups of one subject, mechanism and dtype, and how their cells become plain data.

The command line, the pytest plugin and the Python interface all run groups, and so give the same cells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ..cases.plans import Profile, beyond_limits, directed, profile_named
from ..data.plain import cause_of, exact, trace_of
from ..data.texts import safe
from ..diagnosis.maps import mapped
from ..diagnosis.naming import Likeness, diagnose
from ..diagnosis.witness import describe, finite_or_none
from ..errors import UsageError, did_you_mean
from ..execution.supervisor import SECONDS, Supervisor, available, supervisor
from ..judging.cells import PARAMETERS, Cell, Request, Result, law_names, sentence_of
from ..judging.conventions import Finding
from ..judging.engine import run
from ..judging.requirements import check_requirements
from ..judging.shrinking import made_small
from ..mechanisms.evidence import Evidence, evidence_of
from ..mechanisms.loader import library
from ..mechanisms.mechanism import Mechanism
from ..numerics.formats import FORMATS, unknown_dtype
from ..numerics.grades import coarser
from ..reporting.results import environment
from ..subjects.subject import AdapterSubject, Subject
from ..subjects.targets import file_of, resolve
from .waivers import Waiver, excused, today, waivers_of

T = TypeVar("T")
BLOCKS = 3
"""Failures of one subject that are made small and explained in full."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run, as it was asked for."""

    targets: tuple[str, ...] = ()
    operator: str | None = None
    framework: str | None = None
    dtypes: tuple[str, ...] = ()
    device: str = "cpu"
    mechanisms: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    """What is to have been tested, as `requirements` has it."""
    profile: str = "quick"
    seed: int = 0
    shard: str = ""
    max_time: float | None = None
    fail_on: str = "must"
    isolate: bool = True
    time_limit: float = SECONDS
    waivers: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """One subject on one mechanism at one dtype: what shares its cases."""

    target: str
    subject: Subject
    mechanism: Mechanism
    dtype: str
    laws: tuple[str, ...]
    source: str | None = None
    """Under which target another process finds the subject, if that is not `target`; nothing if none does."""

    @property
    def name(self) -> str:
        """The name of its subject, as it is shown and stored."""
        return safe(self.subject.name)

    @property
    def key(self) -> tuple[str, ...]:
        """As `results.group_of` has it."""
        return self.name, self.mechanism.name, self.dtype, self.mechanism.digest

    def expected(self, laws: Sequence[str], device: str) -> dict[str, Any]:
        """The record of the cells that are to come of it."""
        return {"kind": "expected", **self._place(device), "laws": list(laws)}

    def internal(self, law: str, device: str, says: str, trace: str) -> dict[str, Any]:
        """The cell of a law on which attnspec itself failed."""
        m = self.mechanism
        found = {"level": "must", "verdict": "internal", "cases": 0, "worst": 0.0, "says": says, "trace": trace}
        data = {"kind": "cell", **self._place(device), "law": law, "version": m.version, "digest": m.digest}
        return exact({**data, **found})

    def _place(self, device: str) -> dict[str, Any]:
        m = self.mechanism
        return {
            "subject": self.name,
            "operator": m.operator,
            "mechanism": m.name,
            "dtype": self.dtype,
            "device": device,
        }


def groups(options: Options) -> list[Group]:
    """The groups of a run, subject by subject. Whatever names nothing is a `UsageError`."""
    for dtype in options.dtypes:
        if dtype not in FORMATS:
            raise UsageError(unknown_dtype(dtype))
    profile_named(options.profile)
    mechanisms = chosen(options)
    found = []
    supervised = supervisor_of(options)
    for target in options.targets:
        for subject in resolve(
            target,
            operator=options.operator,
            framework=options.framework,
            device=options.device,
            supervisor=supervised,
        ):
            claimed = subject.claims.dtypes
            asked = options.dtypes or claimed
            dtypes = [d for d in asked if d in claimed or not subject.claims.declared]
            for mechanism, laws in mechanisms.items():
                if library()[mechanism].operator == subject.operator:
                    found += [Group(target, subject, library()[mechanism], dtype, laws) for dtype in dtypes]
    names: dict[str, int] = {}
    for name in {id(g.subject): g.subject.name for g in found}.values():
        names[name] = names.get(name, 0) + (name != "reference")
    double = [name for name, count in names.items() if count > 1]
    if double:
        raise UsageError(f"two subjects are called {double[0]!r}; give one another name")
    return _sharded(completed(found, options), options.shard)


def completed(found: Sequence[Group], options: Options) -> list[Group]:
    """The groups, the first of each subject with a verdict on the parameters that it could not be tried with, if any.

    Where laws are named, nobody has asked. A requirement that none of them can meet is a `UsageError`.
    """
    check_requirements(options.require, {group.subject.operator for group in found}, options.shard)
    first = {id(group.subject): group for group in reversed(found)}
    return [
        replace(group, laws=(*group.laws, PARAMETERS))
        if group is first[id(group.subject)] and group.subject.claims.untested and not options.laws
        else group
        for group in found
    ]


def header_of(options: Options, found: Sequence[Group], command: str) -> dict[str, Any]:
    """The first line of the results: what was asked for, and with what."""
    asked = {name: getattr(options, name) for name in ("profile", "seed", "device", "fail_on", "operator", "framework")}
    adapters = {g.subject.name: g.subject.adapter for g in found if isinstance(g.subject, AdapterSubject)}
    packages = dict.fromkeys(a.package for a in adapters.values() if a.package)
    files = [path for target in options.targets if (path := file_of(target)) is not None]
    waivers = waivers_file(options)
    files += [waivers] if waivers is not None else []
    if options.waivers and waivers is None:
        asked["waivers_missing"] = options.waivers
    asked |= {"require": list(options.require), "shard": options.shard, "isolation": _isolation(found)}
    return environment(command, {**asked, "targets": list(options.targets)}, packages, dict.fromkeys(files))


def waivers_file(options: Options) -> Path | None:
    """The file of waivers, if one is named and there; a name that no file can have is a `UsageError`."""
    path = Path(options.waivers)
    try:
        return path if options.waivers and path.exists() else None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {safe(options.waivers)}: {getattr(error, 'strerror', None) or error}") from None


def _isolation(found: Sequence[Group]) -> str:
    """Where the calls of foreign functions are made; nothing where there are none."""
    isolated = {g.subject.isolated for g in found if isinstance(g.subject, AdapterSubject)}
    if not isolated:
        return ""
    return "calls isolated in worker processes" if all(isolated) else "no isolation: calls ran in this process"


def supervisor_of(options: Options) -> Supervisor | None:
    """Who supervises the calls, if anybody does."""
    if not 0 < options.time_limit < math.inf:
        raise UsageError(f"a time limit is a number of seconds, not {options.time_limit:g}")
    return supervisor(options.time_limit, options.device) if options.isolate and available() else None


def free(options: Options) -> None:
    """End the processes of this one's supervisor, and give back what it holds; they begin anew when they are needed."""
    held = supervisor_of(options)
    if held is not None:
        held.close()


def chosen(options: Options) -> dict[str, tuple[str, ...]]:
    """The mechanisms of a run with the laws to be tried; unknown names are a `UsageError`."""
    for name in options.mechanisms:
        if name not in library():
            raise UsageError(f"unknown mechanism {name!r}{did_you_mean(name, library())}")
    found = {
        m.name: tuple(law_names(m))
        for m in library().values()
        if m.name in options.mechanisms or not options.mechanisms
    }
    if not options.laws:
        return found
    known = {f"{m}.{law}": (m, law) for m, laws in found.items() for law in laws}
    picked: dict[str, list[str]] = {}
    for name in options.laws:
        matching = [pair for address, pair in known.items() if name in (address, pair[1])]
        if not matching:
            raise UsageError(f"unknown law {name!r}{did_you_mean(name, {*known, *(law for _, law in known.values())})}")
        for mechanism, law in matching:
            picked.setdefault(mechanism, []).append(law)
    return {mechanism: tuple(laws) for mechanism, laws in picked.items()}


def _sharded(found: list[Group], shard: str) -> list[Group]:
    if not shard:
        return found
    index, _, count = shard.partition("/")
    if not index.isdigit() or not count.isdigit() or not 1 <= int(index) <= int(count):
        raise UsageError(f"a shard is written as 1/4, not {shard!r}")
    return found[int(index) - 1 :: int(count)]


@dataclass(slots=True)
class Runner:
    """Runs groups, each once, and keeps what they gave."""

    options: Options
    profile: Profile = field(init=False)
    deadline: float | None = field(init=False)
    waivers: tuple[Waiver, ...] = field(init=False)
    results: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict)
    explained: dict[str, set[str]] = field(default_factory=dict)
    """What has been shown in full of each subject: one fault gets one block."""

    def __post_init__(self) -> None:
        self.profile = profile_named(self.options.profile)
        path = waivers_file(self.options)
        self.waivers = waivers_of(path) if path is not None else ()
        self.deadline = None if self.options.max_time is None else time.monotonic() + self.options.max_time

    def cells(self, group: Group, laws: Collection[str] | None = None) -> list[dict[str, Any]]:
        """The cells of a group as plain data, computed when first asked for.

        Where attnspec itself fails, it costs the cells of the group and no others.
        """
        if group.key not in self.results:
            wanted = group.laws if laws is None else laws
            try:
                self.results[group.key] = list(self._run(group, wanted))
            except Exception as error:
                says, trace = cause_of(error), trace_of(error)
                broken = [group.internal(law, self.options.device, says, trace) for law in wanted]
                self.results[group.key] = broken
        return self.results[group.key]

    def _run(self, group: Group, laws: Collection[str]) -> Iterator[dict[str, Any]]:
        request = Request(
            group.subject,
            group.mechanism,
            group.dtype,
            self.profile,
            self.options.device,
            self.options.seed,
            frozenset(laws),
            self.deadline,
        )
        result = excused(run(request), self.waivers, today(), self.options.seed)
        failed = [c for c in result.cells if c.bad and c.failure is not None and self.counts(c.level)]
        head = headline(failed) if failed and result.bench is not None else None
        for cell in result.cells:
            data = cell_data(cell, group, result)
            if head is not None and cell is head:
                data |= self._explained(group, result, failed, head)
            yield exact(data)

    def _explained(self, group: Group, result: Result, failed: Sequence[Cell], head: Cell) -> dict[str, Any]:
        """The failure that stands for all of the group, explained; the others are listed under it.

        What goes wrong in explaining it is told under `unexplained`: the verdict stands.
        """
        bench, first, shown = result.bench, head.failure, self.explained.setdefault(group.name, set())
        assert bench is not None
        assert first is not None
        steps = Steps()
        likeness = seen = None
        failure, room = first, len(shown) < BLOCKS
        others, seed = [c.law for c in failed if c is not head], self.options.seed
        with group.subject.session():
            if room:
                failure = steps.tried(lambda: made_small(first, result)) or first
            if room and (not head.law.startswith(("contract.", "convention.")) or head.law == "contract.precision"):
                likeness = steps.tried(lambda: diagnose(bench, failure, seed))
                seen = steps.tried(lambda: mapped(bench, failure, seed))
            faults = _faults(likeness) if isinstance(likeness, Likeness) else {_unnamed(group, head)}
            data = steps.tried(lambda: exact(describe(failure, bench, group.target, likeness, others, seen)))
            if data is None:
                data = steps.tried(lambda: exact(describe(first, bench, group.target, None, others)))
        found: dict[str, Any] = {"unexplained": steps.failed} if steps.failed else {}
        if data is not None:
            data |= {} if group.source is None else {"target": group.source or group.target, "alone": not group.source}
            found["witness"] = {**data, "full": room and not faults & shown}
        shown |= faults
        return found

    def counts(self, level: str) -> bool:
        """Whether a failure at this level makes a subject violated."""
        return level == "must" or self.options.fail_on == "should"


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
    """What stands for a fault without a name: one that breaks the definition is the same in all of an operator."""
    if head.law == "definition":
        return f"{group.mechanism.operator}.{head.law}.{head.verdict}"
    return f"{group.mechanism.name}.{head.law}"


def headline(failed: Sequence[Cell]) -> Cell:
    """The failure that says most: a law before the definition, and those before contracts and rejects.

    Of a call without an answer no law says more than the definition, which asks for one call and no other.
    """

    def rank(cell: Cell) -> tuple[int, int]:
        if cell.law.startswith(("contract.", "convention.")):
            return cell.level != "must", 3
        return cell.level != "must", 1 if cell.law == "definition" else 2 if cell.verdict == "error" else 0

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
        known = evidence_of(group.mechanism)
        data["run"] |= coverage_data(group, result)
        if known is not None and result.bench is not None and any(c.law == "definition" for c in result.cells):
            data["run"]["evidence"] = evidence_data(known, group, result)
    return data


def coverage_data(group: Group, result: Result) -> dict[str, Any]:
    """What was refused, claimed and left aside, as far as there is any of it."""
    claims, refusals = group.subject.claims, result.refusals
    answered, refused = len({*refusals.answered}), len(refusals.refused)
    grade = claims.grade(group.dtype)
    found: dict[str, Any] = {
        "claimed": grade.name if coarser(group.dtype, grade) else "",
        "untested": list(claims.untested),
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
