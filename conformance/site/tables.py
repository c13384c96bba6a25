"""Results as filtered rows: one for each implementation, mechanism, dtype and device."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..reporting.baseline import Group, Key, Verdict
from ..reporting.charts import number
from ..subjects.registered import shipped
from .history import Run

BAD = ("fail", "error", "internal")


@dataclass(frozen=True, slots=True)
class Failing:
    """Laws that do not hold in one way, and the known finding that they belong to, if any."""

    laws: tuple[str, ...]
    told: str
    finding: str


@dataclass(frozen=True, slots=True)
class Row:
    """An implementation on a mechanism in a dtype on a device."""

    subject: str
    mechanism: str
    dtype: str
    device: str
    framework: str
    day: str
    run: str
    verdict: str
    """What it is drawn as: `pass`, `fail`, `known`, `should`, `waived` or `not_tested`."""
    text: str
    worst: str
    grade: str
    failing: tuple[Failing, ...]


def rows(groups: Mapping[Key, tuple[Run, Group]]) -> Iterator[Row]:
    """The rows of groups in which anything was tried."""
    for (subject, mechanism, dtype, device), (run, group) in sorted(groups.items()):
        if group.laws:
            worst = max((found.worst or 0.0 for found in group.laws.values() if found.verdict == "pass"), default=0.0)
            yield Row(
                subject,
                mechanism,
                dtype,
                device,
                framework_of(subject),
                run.day,
                run.name,
                verdict_of(group.laws),
                counted(group.laws),
                number(worst),
                group.grade,
                tuple(_failing(group.laws)),
            )


def verdict_of(laws: Mapping[str, Verdict]) -> str:
    """The worst of some verdicts, as it is drawn."""
    bad = [found for found in laws.values() if found.verdict in BAD]
    must = [found for found in bad if found.level == "must"]
    if must:
        return "known" if all(found.finding for found in must) else "fail"
    if any(found.verdict == "waived" for found in laws.values()):
        return "waived"
    return "should" if bad else "pass" if laws else "not_tested"


def counted(laws: Mapping[str, Verdict]) -> str:
    """How many of the laws that were tried hold."""
    return f"{sum(found.verdict == 'pass' for found in laws.values())}/{len(laws)}"


def _failing(laws: Mapping[str, Verdict]) -> Iterator[Failing]:
    """What does not hold, laws together that fail alike."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for law, found in laws.items():
        if found.verdict in BAD:
            alike.setdefault((found.verdict, found.level, found.finding), []).append(law)
    for (verdict, level, finding), own in alike.items():
        told = {"fail": "fail", "error": "raise", "internal": "end in an internal error"}[verdict]
        if len(own) == 1:
            told = {"fail": "fails", "error": "raises"}.get(verdict, "ends in an internal error")
        yield Failing(tuple(own), f"{told}, and should hold" if level == "should" else told, finding)


@functools.cache
def _frameworks() -> dict[str, str]:
    return {one.name: one.package or one.framework for one in shipped()}


def framework_of(subject: str) -> str:
    """The package that an implementation is of, where it comes along; else nothing."""
    return _frameworks().get(subject.partition("@")[0], "").partition(".")[0]
