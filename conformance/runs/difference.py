"""Two targets compared: both run on the same cases, and their differences become plain data."""

from __future__ import annotations

import copy
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from ..cases.applicability import undeclared
from ..cases.profiles import profile_named
from ..data.plain import storable
from ..errors import Exit, UsageError
from ..execution.devices import check_device
from ..judging.cells import Request
from ..judging.comparison import Both, Watch, compared, tightest
from ..judging.engine import run
from ..judging.layouts import lay_out
from ..mechanisms.library import Library
from ..mechanisms.mechanism import Mechanism
from ..reporting.difference import FORMAT, Difference, Pair
from ..reporting.results import version_of
from ..subjects.shared import together
from ..subjects.subject import AdapterSubject, Subject
from .contrasts import Part, told_of
from .groups import chosen, library_of
from .options import Options
from .pairs import Two, dtypes_of, pairs


def differences(options: Options, command: str = "", says: Callable[[str], None] = lambda text: None) -> Difference:
    """What two targets differ in. Whatever is wrong with what was asked for is an `Error`."""
    check_device(options.device)
    profile_named(options.profile)
    if len(options.targets) != 2:
        raise UsageError("diff takes two targets")
    started, began = time.strftime("%Y-%m-%dT%H:%M:%S%z"), time.monotonic()
    library = library_of(options)
    found = [_pair(two, options, library, says) for two in pairs(options, library)]
    data: Difference = {
        "format": FORMAT,
        "attnspec": version_of("attnspec"),
        "platform": f"{platform.system()} {platform.machine()}",
        "command": command,
        "started": started,
        "profile": options.profile,
        "seed": options.seed,
        "device": options.device,
        "seconds": round(time.monotonic() - began, 3),
        "pairs": found,
    }
    return cast(Difference, storable(data))


def exit_of(found: Difference) -> Exit:
    """What a command ends with: whether anything differs, or was not compared."""
    verdicts = {pair["verdict"] for pair in found["pairs"]}
    if "differ" in verdicts:
        return Exit.VIOLATED
    return Exit.CONFORMANT if verdicts == {"same"} else Exit.NOTHING_TESTED


def _pair(two: Two, options: Options, library: Library, says: Callable[[str], None]) -> Pair:
    operator = two.subjects[0].mechanism.stating
    claims = together(two.subjects[0].claims, two.subjects[1].claims, operator)
    subjects = _claiming(two.subjects[0], claims[0]), _claiming(two.subjects[1], claims[1])
    dtypes = dtypes_of(two, options.dtypes)
    for subject in subjects if dtypes else ():
        _lay_out(subject, operator, dtypes[0], options.device)
    names = [name for name in chosen(options, library)(two.operator) if _tried(library[name], subjects)]
    groups = [(library[name], dtype) for name in names for dtype in dtypes]
    until = None if options.max_time is None else time.monotonic() + options.max_time
    parts = []
    for number, (mechanism, dtype) in enumerate(groups):
        says(f"comparing {mechanism.name} [{dtype}], {number} of {len(groups)}")
        part = _part(subjects, mechanism, dtype, options, _share(until, 2 * (len(groups) - number)))
        parts += [part] if part is not None else []
    says("shrinking differences")
    return told_of(two, replace(two, subjects=subjects).sides(), parts, options)


def _claiming(subject: Subject, claims: Any) -> Subject:
    """A subject that claims no more than both do; its calls are made as before."""
    other = copy.copy(subject)
    other.claims = claims  # type: ignore[misc] - every kind of subject has it as an attribute
    if isinstance(other, AdapterSubject):
        other.noted = {}
    return other


def _lay_out(subject: Subject, operator: Mechanism, dtype: str, device: str) -> None:
    """Have a subject called in the layout that it reads; that it is not declared is no reason to compare nothing."""
    with subject.session():
        lay_out(subject, operator, dtype, device)
    if isinstance(subject, AdapterSubject):
        subject.observed_layout = False


def _tried(mechanism: Mechanism, subjects: Sequence[Subject]) -> bool:
    return all(undeclared(mechanism, subject.claims) is None for subject in subjects)


def _share(until: float | None, runs: int) -> Callable[[], float | None]:
    """When the next of so many runs is to end."""

    def deadline() -> float | None:
        nonlocal runs
        now = time.monotonic()
        found = None if until is None else now + max(until - now, 0.0) / runs
        runs -= 1
        return found

    return deadline


def _part(
    subjects: tuple[Subject, Subject],
    mechanism: Mechanism,
    dtype: str,
    options: Options,
    deadline: Callable[[], float | None],
) -> Part | None:
    """Both on one mechanism and dtype; None where one of them refuses all of it."""
    watches, results = (Watch(), Watch()), []
    for subject, watch in zip(subjects, watches, strict=True):
        request = Request(subject, mechanism, dtype, profile_named(options.profile), options.device, options.seed)
        results.append(run(replace(request, deadline=deadline(), watch=watch)))
    first, second = results
    if first.bench is None or second.bench is None:
        return None
    benches = first.bench, second.bench
    grades = tuple(
        result.grade or bench.subject.claims.grade(dtype) for result, bench in zip(results, benches, strict=True)
    )
    both = Both(benches, (grades[0], grades[1]))
    cases = compared(both, *watches)
    tight = [tightest(bench, watch, grade) for bench, watch, grade in zip(benches, watches, grades, strict=True)]
    results = [replace(result, grade=grade) for result, grade in zip(results, tight, strict=True)]
    return Part(both, (results[0], results[1]), cases)
