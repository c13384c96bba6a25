"""Findings in released packages: read from `findings.yaml`, and written as docs/findings.md.

`python -m attnspec.reporting.findings > docs/findings.md` writes the page.
The file ships with the package, so that a check knows which failures are known.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from ..errors import Place, SpecError, SpecErrors, did_you_mean
from ..frameworks.framework import kind_of
from ..judging.cells import every_name, has_name
from ..judging.recognition import Mark, scope_of
from ..language.expressions import Expression
from ..mechanisms.documents import Text, read
from ..mechanisms.library import Library
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.schema import schema_errors

FILE = Path(__file__).with_name("findings.yaml")
SCHEMA = Path(__file__).with_name("findings.json")
HEAD = """# Findings

What attnspec has found in released packages, each with the version that was tested, what its documentation says, what it does, and a reproduction that needs the package alone.
The page is made of `conformance/reporting/findings.yaml`, by which `attnspec check` tells failures that are known from new ones.
The reproductions are run by `tests/end_to_end/test_findings.py`, which passes over packages of another version; outputs are those of a CPU, or of an NVIDIA H200 where a program asks for a CUDA device.
The command under each finds it again.
"""  # noqa: E501 - a sentence a line
DISPUTABLE = "## Deliberate, or open to dispute"


@dataclass(frozen=True, slots=True)
class Seen:
    """Where a finding is seen: adapters and laws that fail, and by what such failures are told from others."""

    subjects: tuple[str, ...]
    laws: tuple[Text, ...]
    """As MECHANISM.LAW."""
    dtypes: tuple[str, ...] = ()
    when: Text | None = None
    shows: str = ""
    after: str = ""
    """A sentence that stands before its command."""
    device: str = ""
    """The kind of device on which it is so; any if it is empty."""

    @property
    def command(self) -> str:
        """What finds it again."""
        profile = " --profile serving" if ".serving." in self.laws[0] else ""
        device = f" --device {self.device}" if self.device else ""
        return f"attnspec check {self.subjects[0]}{profile}{device} --law {self.laws[0]}"

    def mark(self, finding: str, mechanism: Mechanism, dtype: str) -> Mark | None:
        """By what its failures are recognized on a mechanism in a dtype; None if there are none.

        A condition that means nothing is a `SpecError` with its place.
        """
        laws = [law.partition(".") for law in self.laws]
        own = frozenset(law for name, _, law in laws if name == mechanism.name)
        if not own or (self.dtypes and dtype not in self.dtypes):
            return None
        when = None if self.when is None else Expression(self.when, scope_of(mechanism), self.when.place)
        return Mark(finding, own, when, self.shows)


@dataclass(frozen=True, slots=True)
class Finding:
    """One entry of the file; the schema says what its parts mean."""

    id: str
    place: Place
    package: str
    tested: str
    versions: str
    state: str
    happens: str
    seen: tuple[Seen, ...]
    title: str = ""
    part: str = ""
    mended: str = ""
    link: str = ""
    documented: str = ""
    matters: str = ""
    code: str = ""
    prints: str = ""

    @property
    def holds(self) -> bool:
        """Whether the package that is installed is of a version that has it."""
        from packaging.specifiers import SpecifierSet

        installed = _installed(self.package)
        return bool(installed) and SpecifierSet(self.versions).contains(installed, prereleases=True)

    @property
    def heading(self) -> str:
        """What it is about, in a line."""
        return f"{self.package} {self.tested}: {self.title or self.part.replace('`', '')}"


@functools.cache
def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@functools.cache
def findings(path: Path = FILE) -> tuple[Finding, ...]:
    """The findings of a file; all that is wrong with its form is said at once, as `SpecErrors` with places."""
    document = read(path, path.name)
    if faults := list(schema_errors(document, SCHEMA)):
        raise SpecErrors(faults)
    entries = cast(Mapping[str, Any], document)["findings"]  # texts are found by what they say
    names = [entry["id"] for entry in entries]
    if faults := [fault for at, entry in enumerate(entries) for fault in _faults(entry, names[:at])]:
        raise SpecErrors(faults)
    return tuple(map(_finding, entries))


def _faults(entry: Mapping[str, Any], earlier: Sequence[str]) -> Iterator[SpecError]:
    """What is wrong with an entry beside its form."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if entry["id"] in earlier:
        yield SpecError(f"two findings are called {str(entry['id'])!r}", entry["id"].place)
    try:
        SpecifierSet(entry["versions"])
    except InvalidSpecifier:
        says = f"{str(entry['versions'])!r} are no versions such as >=2.13.0,<2.15"
        yield SpecError(says, entry["versions"].place)
    if ("mended" in entry) != (entry["state"] == "mended"):
        yield SpecError("'mended' is the version of a finding of that state, and of no other", entry["state"].place)
    if ("title" in entry) == ("part" in entry):
        yield SpecError("a finding has a title or a part, and not both", entry["id"].place)
    lacking = [key for key in ("code", "prints") if "title" in entry and key not in entry]
    if lacking:
        yield SpecError(
            f"a finding with a title is shown by a program: the key {lacking[0]} is missing", entry["id"].place
        )


def _finding(entry: Mapping[Text, Any]) -> Finding:
    parts: dict[str, Any] = {str(key): str(x) for key, x in entry.items() if isinstance(x, str)}
    return Finding(**parts, place=next(iter(entry)).place, seen=tuple(map(_seen, cast(Any, entry)["seen"])))


def _seen(entry: Mapping[str, Any]) -> Seen:
    several = {key: tuple(entry[key]) for key in ("subjects", "laws", "dtypes") if key in entry}
    return Seen(**several, **{key: entry[key] for key in ("when", "shows", "after", "device") if key in entry})


def unmeant(found: Iterable[Finding], library: Library) -> Iterator[SpecError]:
    """What findings name that is not there: mechanisms, laws, and names in conditions, each with its place."""
    for seen in (seen for finding in found for seen in finding.seen):
        for law in seen.laws:
            mechanism, _, name = law.partition(".")
            if mechanism not in library:
                yield SpecError(f"unknown mechanism {mechanism!r}{did_you_mean(mechanism, library)}", law.place)
            elif not has_name(library[mechanism], name):
                hint = did_you_mean(name, every_name(library[mechanism]))
                yield SpecError(f"unknown law {str(law)!r}{hint}", law.place)
            else:
                try:
                    seen.mark("", library[mechanism], next(iter(seen.dtypes), ""))
                except SpecError as fault:
                    yield fault


def marks(
    subject: str, mechanism: Mechanism, dtype: str, found: Iterable[Finding] | None = None, device: str = "cpu"
) -> tuple[Mark, ...]:
    """By what the failures of an adapter on a device are recognized that are known of the versions here."""
    named = [
        (finding, seen)
        for finding in (findings() if found is None else found)
        for seen in finding.seen
        if subject in seen.subjects and seen.device in ("", kind_of(device))
    ]
    known = (seen.mark(finding.id, mechanism, dtype) for finding, seen in named if finding.holds)
    return tuple(mark for mark in known if mark is not None)


def named(name: str) -> Finding | None:
    """The finding of that name."""
    return next((finding for finding in findings() if finding.id == name), None)


# The page


def page(found: Iterable[Finding] | None = None) -> Iterator[str]:
    """All findings as Markdown, line by line."""
    every = findings() if found is None else tuple(found)
    yield HEAD
    for finding in every:
        if finding.title:
            yield from _section(finding)
            yield ""
    yield DISPUTABLE
    yield ""
    for finding in every:
        if not finding.title:
            yield from _item(finding)


def _section(finding: Finding) -> Iterator[str]:
    yield f"## {finding.package} {finding.tested}: {finding.title}"
    yield ""
    yield _state(finding)
    yield ""
    yield from prose(finding)
    yield ""
    yield f"```python\n{finding.code}\n```"
    yield ""
    yield f"```text\n{finding.prints}\n```"
    yield ""
    yield from _commands(finding.seen)


def prose(finding: Finding) -> Iterator[str]:
    """What the documentation says, what happens, and whom it concerns, a sentence a line."""
    linked = finding.documented.replace("]", f"]({finding.link})", 1) if finding.link else finding.documented
    yield from (part for part in (linked, finding.happens, finding.matters) if part)


def _state(finding: Finding) -> str:
    return f"`{finding.id}`, {standing(finding)}"


def standing(finding: Finding) -> str:
    """Its state, and the version in which it is mended."""
    return f"{finding.state} in {finding.mended}" if finding.mended else finding.state


def _commands(seen: Sequence[Seen]) -> Iterator[str]:
    """The commands, those together that no sentence parts."""
    line = ""
    for one in seen:
        if one.after and line:
            yield line
            yield ""
            line = ""
        if one.after:
            yield one.after
            yield ""
        line += f"{', and ' if line else ''}`{one.command}`"
    yield line


def _item(finding: Finding) -> Iterator[str]:
    commands = ", and ".join(f"`{one.command}`" for one in finding.seen)
    yield f"- `{finding.package}` {finding.tested}, {finding.part}: {finding.happens}"
    yield f"  {_state(finding)}; {commands}"


if __name__ == "__main__":
    print(*page(), sep="\n")
