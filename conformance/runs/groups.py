"""The groups of a run: one subject, mechanism and dtype each, whose cells share their cases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from ..cases.plans import scenarios_of
from ..cases.profiles import profile_named
from ..data.plain import storable
from ..data.texts import safe
from ..errors import UsageError, did_you_mean
from ..execution.devices import is_here, model_of
from ..execution.interpretation import BY
from ..execution.interpreters import Interpreter, parted
from ..execution.mapping import MappingError
from ..execution.supervisor import Supervisor, available, supervisor
from ..frameworks.framework import kind_of
from ..judging.bench import Bench
from ..judging.cells import BACKWARD, LAYOUT, PARAMETERS, every_name, law_names
from ..judging.first_call import differentiated, noticed, taken_beside
from ..judging.requirements import check_requirements
from ..judging.trial import Trial
from ..mechanisms.library import Library
from ..mechanisms.loader import Specs
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.workloads import Workload
from ..numerics.formats import FORMATS, unknown_dtype
from ..reporting.records import CellLine, ExpectedLine, GroupRun, PythonEnvironment, Verdict
from ..reporting.results import environment
from ..subjects.beside import BesideSubject, others
from ..subjects.gradients import GradientSubject, may_have_gradients
from ..subjects.subject import AdapterSubject, Subject
from ..subjects.targets import file_of, files_of, resolve
from .classes import declared
from .durations import durations, expected, shared_out
from .options import Options
from .workload import asked, calls_in, dtypes_in, part_of

FILLED = 3
"""Cases that a module is filled from before anything is judged."""
UNFITTING = f"{MappingError.__name__}: "
"""What the fault of a call begins with in which a module could not be filled."""


class _Place(TypedDict):
    """What all records of a group have in common."""

    subject: str
    operator: str
    mechanism: str
    dtype: str
    device: str


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
    notes: tuple[str, ...] = ()
    """What first calls of the subject have found, in words."""

    @property
    def name(self) -> str:
        """The name of its subject, as it is shown and stored."""
        return safe(self.subject.name)

    @property
    def key(self) -> tuple[str, ...]:
        """As `results.group_of` has it."""
        return self.name, self.mechanism.name, self.dtype, self.mechanism.digest

    def expected(self, laws: Sequence[str], device: str) -> ExpectedLine:
        """The record of the cells that are to come of it."""
        found: ExpectedLine = {"kind": "expected", **self._place(device), "laws": list(laws)}
        place = self.subject.adapter.place if isinstance(self.subject, AdapterSubject) else ""
        return {**found, "place": safe(place)} if place and not Path(place).is_absolute() else found

    def internal(self, law: str, device: str, says: str, trace: str) -> CellLine:
        """The cell of a law on which attnspec itself failed."""
        return storable({**self._cell(law, device, "internal", says), "trace": trace})

    def untried(self, device: str, says: str) -> list[CellLine]:
        """Its cells where it was not run, which a run that resumes this one computes."""
        run: GroupRun = {
            "cases": 0,
            "calls": 0,
            "seconds": 0.0,
            "grade": "",
            "partial": True,
            "ended": says,
            "conventions": {},
        }
        found = [self._cell(law, device, "not_tested", says) for law in self.laws]
        return storable([{**found[0], "run": run}, *found[1:]])

    def _cell(self, law: str, device: str, verdict: Verdict, says: str) -> CellLine:
        m = self.mechanism
        return {
            "kind": "cell",
            **self._place(device),
            "law": law,
            "version": m.version,
            "digest": m.digest,
            "level": "must",
            "verdict": verdict,
            "cases": 0,
            "worst": 0.0,
            "says": says,
        }

    def _place(self, device: str) -> _Place:
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
    known = library_of(options)
    away = bool(options.on) and not is_here(options.device)
    supervised = supervisor_of(replace(options, device="cpu") if away else options)
    if supervised is not None:
        for path in filter(None, (file_of(target) for target in options.targets if not parted(target)[1])):
            supervised.begin(path)
    workload = asked(options, known)
    laws = chosen(options, known) if workload is None else _worked(workload, known)
    found = []
    for named in options.targets:
        target, mapping = declared(named, options, supervised, known)
        for subject in resolve(
            target,
            operator=options.operator,
            framework=options.framework,
            layout=options.layout,
            like=options.like,
            device=options.device,
            supervisor=supervised,
            known=known,
            elsewhere=bool(options.on),
        ):
            first = called_here(subject, options)
            said = _dtypes(subject, options, workload) if options.dtypes or workload else None
            notes = noticed(subject, options.device, said or ()) if first else ()
            dtypes = subject.claims.dtypes if said is None else said
            several, more = with_further(subject, options.device, known, laws) if first else ([subject], ())
            for one in several:
                for mechanism, own in laws(one.operator).items():
                    found += [
                        Group(
                            target,
                            one,
                            known[mechanism],
                            dtype,
                            _of(own, workload, mechanism, dtype),
                            notes=(*mapping, *notes, *more),
                        )
                        for dtype in dtypes
                    ]
    times: dict[str, int] = {}
    whole = [g.subject for g in found if not isinstance(g.subject, GradientSubject | BesideSubject)]
    for name in {id(subject): subject.name for subject in whole}.values():
        times[name] = times.get(name, 0) + (name != "reference")
    double = [name for name, count in times.items() if count > 1]
    if double:
        raise UsageError(f"two subjects are named {double[0]!r}; rename one")
    return completed(found, options)


def _dtypes(subject: Subject, options: Options, workload: Workload | None) -> list[str]:
    """The dtypes in which a subject is tried: those that are asked for or claimed, or that a workload has."""
    claims = subject.claims
    called = claims.dtypes if workload is None else dtypes_in(workload, subject.operator)
    return [d for d in options.dtypes or called if d in claims.dtypes or not claims.declared]


def _worked(workload: Workload, library: Library) -> Callable[[str], dict[str, tuple[str, ...]]]:
    """The mechanisms of an operator that a workload tries, with its verdicts in all dtypes."""

    def laws_of(operator: str) -> dict[str, tuple[str, ...]]:
        own = calls_in(workload, operator) if operator in library else {}
        return {operator: tuple(own)} if own else {}

    return laws_of


def _of(laws: tuple[str, ...], workload: Workload | None, operator: str, dtype: str) -> tuple[str, ...]:
    """The verdicts of a group, which has those calls of a workload that are of its dtype."""
    return laws if workload is None else tuple(calls_in(workload, operator, dtype))


def called_here(subject: Subject, options: Options) -> bool:
    """Whether this process can make first calls: on a cluster a device or packages may be those of other machines."""
    own = isinstance(subject, AdapterSubject) and subject.adapter.environment
    return not options.on or (is_here(options.device) and not own)


def with_further(
    subject: Subject, device: str, known: Library, laws: Callable[[str], Mapping[str, tuple[str, ...]]]
) -> tuple[list[Subject], tuple[str, ...]]:
    """A subject, and what else its function computes: other calls of a known interface, and gradients of each.

    It comes with what is to be said of that. Of a mechanism that is left out by name no call finds out anything.
    """
    found, notes = list[Subject](), list[str]()
    beside = others(subject, known) if isinstance(subject, AdapterSubject) else ()
    for one in (subject, *(other for other in beside if laws(other.operator))):
        found.append(one)
        notes += taken_beside(one, device) if isinstance(one, BesideSubject) else ()
        if may_have_gradients(one) and laws(f"{one.operator}_gradient"):
            gradients, more = differentiated(one, device, known)
            found += [] if gradients is None else [gradients]
            notes += more
    return found, tuple(notes)


def completed(found: Sequence[Group], options: Options) -> list[Group]:
    """The groups of a run or of its shard, given all that go together.

    The first of each subject has a verdict on the parameters that it could not be tried with, if any, and where every
    choice is to be declared, on a layout that is not.

    Where laws are named, nobody has asked. A requirement that none of them can meet is a `UsageError`.
    """
    for group in {id(group.subject): group for group in reversed(found)}.values():
        if called_here(group.subject, options):
            _check_filling(group, options.device)
    operators = {group.subject.operator for group in found}
    check_requirements(options.require, operators, options.shard, library_of(options))
    first = {id(group.subject): group for group in reversed(found)}
    strict = profile_named(options.profile).strict
    whole = [
        replace(group, laws=(*group.laws, *_further(group.subject, strict=strict)))
        if group is first[id(group.subject)] and not (options.laws or options.workload)
        else group
        for group in found
    ]
    return _sharded(whole, options)


def _further(subject: Subject, *, strict: bool) -> list[str]:
    """What has a verdict once a subject, and not with every mechanism."""
    open_layout = strict and isinstance(subject, AdapterSubject) and subject.undeclared_layout
    graph = isinstance(subject, GradientSubject) and subject.adapter.framework == "torch"
    return [PARAMETERS] * bool(subject.claims.untested) + [LAYOUT] * open_layout + [BACKWARD] * graph


def _check_filling(group: Group, device: str) -> None:
    """Raise `UsageError` for a module whose weights do not go where they are said to, as its first cases show."""
    subject = group.subject
    if not isinstance(subject, AdapterSubject) or subject.adapter.factory is None:
        return
    stating = subject.mechanism.stating
    words = {**stating.words, **stating.declared(subject.claims.conventions)}
    with subject.session():
        for sample in itertools.islice(scenarios_of(stating, subject.claims, seed=0, dtype=group.dtype), FILLED):
            trial = Trial(Bench(subject, sample.mechanism, group.dtype, device, words), sample)
            fault = subject.call(trial.call(trial.base)).fault
            if fault is not None and fault.says.startswith(UNFITTING):
                place = f"{subject.adapter.place}: " if subject.adapter.place else ""
                raise UsageError(f"{place}{subject.name}: {fault.says.removeprefix(UNFITTING)}")


def header_of(options: Options, found: Sequence[Group], command: str) -> dict[str, Any]:
    """The first line of the results: what was asked for, and with what."""
    said = {name: getattr(options, name) for name in ("profile", "seed", "device", "fail_on", "operator", "framework")}
    adapters = {g.subject.name: g.subject.adapter for g in found if isinstance(g.subject, AdapterSubject)}
    packages = dict.fromkeys(a.package for a in adapters.values() if a.package)
    if kind_of(options.device) == "cuda" or any(a.interpreted == BY for a in adapters.values()):
        packages["triton"] = None  # which compiles kernels, or interprets them
    files = [path for target in options.targets for path in files_of(target)]
    waivers = waivers_file(options)
    files += [path for path in (waivers, Path(options.workload)) if path is not None and path.is_file()]
    if options.waivers and waivers is None:
        said["waivers_missing"] = options.waivers
    said |= {name: x for name in ("layout", "like", "pin") if (x := getattr(options, name))}
    said |= {"specs": list(options.specs)} if options.specs else {}
    said |= {"model": model} if (model := model_of(options.device)) else {}
    workload = asked(options, library_of(options))
    said |= {"workload": part_of(workload, options.workload)} if workload is not None else {}
    elsewhere = {a.own for g in found if isinstance(a := g.subject, AdapterSubject) and a.own is not None}
    if elsewhere:
        said["environments"] = environments(elsewhere)
    said |= {"require": list(options.require), "shard": options.shard, "isolation": _isolation(found)}
    return environment(command, {**said, "targets": list(options.targets)}, packages, dict.fromkeys(files))


def environments(found: Iterable[Interpreter]) -> dict[str, PythonEnvironment]:
    """The other environments of a run, by the paths of their interpreters: versions of Python and packages."""
    paths: dict[str, PythonEnvironment] = {}
    for each in found:
        known = paths.setdefault(each.path, {"python": each.version, "packages": {}})
        known["packages"] = dict(sorted({**known["packages"], **each.versions}.items()))
    return paths


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
        raise UsageError(f"a time limit must be a number of seconds, not {options.time_limit:g}")
    if not 0 <= options.explain_time < math.inf:
        raise UsageError(f"the explain time must be a number of seconds, not {options.explain_time:g}")
    return supervisor(options.time_limit, options.device) if options.isolate and available() else None


def free(options: Options) -> None:
    """End the processes of this one's supervisor, and give back what it holds; they begin anew when they are needed."""
    held = supervisor_of(options)
    if held is not None:
        held.close()


def library_of(options: Options) -> Library:
    """The mechanisms that a run knows."""
    return Specs(options.specs, options.references).library()


def chosen(options: Options, library: Library) -> Callable[[str], dict[str, tuple[str, ...]]]:
    """The mechanisms of an operator that a run tries, with their laws; unknown names are a `UsageError`.

    Few of other operators are read for that.
    """
    for name in options.mechanisms:
        if name not in library:
            raise UsageError(f"unknown mechanism {name!r}{did_you_mean(name, library)}")
    names = [name for name in library if name in (options.mechanisms or library)]
    large = profile_named(options.profile).large

    def names_of(name: str) -> list[str]:
        return (every_name if large else law_names)(library[name])

    for law in options.laws:
        if not any(law.removeprefix(f"{name}.") in names_of(name) for name in _likely(law, names, library)):
            known = {f"{name}.{own}": own for name in names for own in names_of(name)}
            raise UsageError(f"unknown law {law!r}{did_you_mean(law, {*known, *known.values()})}")

    def laws_of(operator: str) -> dict[str, tuple[str, ...]]:
        every = [(name, law) for name in names if library.operator_of(name) == operator for law in names_of(name)]
        asked = [pair for one in options.laws for pair in every if one in (pair[1], ".".join(pair))]
        picked: dict[str, dict[str, None]] = {}
        for name, law in asked if options.laws else every:
            picked.setdefault(name, {})[law] = None
        return {name: tuple(laws) for name, laws in picked.items()}

    return laws_of


def _likely(law: str, names: Sequence[str], library: Library) -> Iterator[str]:
    """Mechanisms in the order in which one of them may have a law: the one that is named, any, those with the word."""
    mechanism, last = law.partition(".")[0], law.rpartition(".")[2]
    yield from [mechanism] if mechanism in names else names[:1]
    yield from (m.name for m in library.naming(last) if m.name in names)
    yield from names


def _sharded(found: list[Group], options: Options) -> list[Group]:
    """The groups of a part: by how long they took before, or else every so many."""
    if not options.shard:
        return found
    index, _, count = options.shard.partition("/")
    if not index.isdigit() or not count.isdigit() or not 1 <= int(index) <= int(count):
        raise UsageError(f"a shard must be written as in 1/4, not {options.shard!r}")
    if not options.balance:
        return found[int(index) - 1 :: int(count)]
    known, device = durations(options.balance), kind_of(options.device)
    seconds = [expected((group.name, group.mechanism.name, group.dtype, device), known) for group in found]
    return [found[place] for place in shared_out(seconds, int(count))[int(index) - 1]]
