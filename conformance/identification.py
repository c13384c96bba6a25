"""The conventions that an implementation follows, whatever it declares, as a block to paste into its declaration."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

from .conventions import Finding, identify
from .loader import library
from .subject import Subject

NAMED = 3
"""Cases that are named as evidence."""


def identified(subject: Subject, device: str, dtypes: Sequence[str] = ()) -> dict[str, dict[str, Finding]]:
    """What is found in each dtype that the subject claims, or in those that are asked for."""
    operator = library()[subject.operator]
    with warnings.catch_warnings(), subject.session():
        warnings.simplefilter("ignore")
        return {d: identify(subject, operator, d, device, blind=True) for d in dtypes or subject.claims.dtypes}


def page(subject: Subject, found: Mapping[str, Mapping[str, Finding]]) -> Iterator[str]:
    """The lines of 'attnspec identify' for one subject."""
    dtypes = " ".join(found)
    yield f"{subject.name}   {subject.operator}   {dtypes}"
    names = list(library()[subject.operator].conventions)
    if not names:
        yield f"    {subject.operator} has no conventions"
        return
    versions = {name: {dtype: findings[name] for dtype, findings in found.items()} for name in names}
    consistent = {name: finding for name, version in versions.items() if (finding := _one(version)) is not None}
    if consistent:
        entries = {name: f'    "{name}": "{finding.word}",' for name, finding in consistent.items()}
        width = max(map(len, entries.values()))
        yield "conventions={"
        for name, entry in entries.items():
            yield f"{entry:<{width}}  # {_evidence(consistent[name])}"
        yield "}"
    declared = library()[subject.operator].declared(subject.claims.conventions)
    for name, version in versions.items():
        if name not in consistent:
            yield f"{name}: {_inconsistent(version)}"
        elif name in declared and declared[name] != consistent[name].word:
            yield f"{name}: declared as {declared[name]}, and follows {consistent[name].word}"


def _one(version: Mapping[str, Finding]) -> Finding | None:
    """What is found in all dtypes that tell; None if there is no such word."""
    told = [finding for finding in version.values() if finding.how != "untold"]
    same = told and all((f.how, f.word) == ("observed", told[0].word) for f in told)
    return max(told, key=lambda finding: finding.cases) if same else None


def _evidence(finding: Finding) -> str:
    more = len(finding.told_by) - NAMED
    named = ", ".join(finding.told_by[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"told by {named}"


def _inconsistent(version: Mapping[str, Finding]) -> str:
    told = {dtype: finding for dtype, finding in version.items() if finding.how != "untold"}
    if not told:
        return "no case that it answers tells its words apart"
    broken = {dtype: finding for dtype, finding in told.items() if finding.how == "unexplained"}
    if broken:
        listed = ", ".join(f"{f.word} explains {f.agreed} of {f.cases} cases in {d}" for d, f in broken.items())
        return f"follows no word consistently: {listed}"
    return "depends on the dtype: " + ", ".join(f"{finding.word} in {dtype}" for dtype, finding in told.items())
