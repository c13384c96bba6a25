"""The results of a run as a JUnit file for CI servers, with one test case for each cell.

The format is the one that Jenkins reads, which is stated in
https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd.
What a law only should hold and does not, what is waived, what is known where a run fails on what is new, and what was
not tried is skipped; a subject that was not tested completely is an error of its own.
"""

from __future__ import annotations

import platform
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.texts import safe, safe_data
from ..errors import Error
from .blocks import failure
from .flaws import weight_of
from .results import Line
from .standings import lacking, unfinished

ASKED = ("attnspec", "command", "profile", "seed", "device", "fail_on", "shard")
"""What of a run's head is a property."""
MESSAGE = 8
"""Lines of a text that are repeated in its message."""


def write(path: Path, lines: Sequence[Line], folder: str) -> None:
    """Write the file of a run, whose cases are kept in a folder. One that cannot be written is an `Error`."""
    try:
        ET.ElementTree(document(lines, folder)).write(path, "utf-8", xml_declaration=True)
    except OSError as error:
        raise Error(f"cannot write {safe(str(path))}: {error.strerror}") from None


def document(lines: Sequence[Line], folder: str) -> ET.Element:
    """All of the file."""
    cases = [_case(line, folder, fail_on=lines[0].get("fail_on", "must")) for line in lines if line["kind"] == "cell"]
    cases += [_unfinished(line) for line in unfinished(lines)]
    counts = {f"{kind}s": sum(case.find(kind) is not None for case in cases) for kind in ("error", "failure")}
    seconds = next((line["seconds"] for line in lines if line["kind"] == "end"), 0.0)
    about = {
        "name": "attnspec",
        **counts,
        "skipped": sum(case.find("skipped") is not None for case in cases),
        "tests": len(cases),
        "time": f"{seconds:.3f}",
        "timestamp": lines[0].get("started", ""),
        "hostname": platform.node(),
    }
    root = ET.Element("testsuites", name="attnspec")
    suite = ET.SubElement(root, "testsuite", {name: safe(str(x)) for name, x in about.items()})
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(lines):
        ET.SubElement(properties, "property", name=safe(name), value=safe(value))
    suite.extend(cases)
    return root


def _properties(lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """What the run was asked, on which versions, and what became of each subject."""
    run = lines[0]
    yield from ((name, str(run[name])) for name in ASKED if name in run)
    yield from ((f"version.{name}", str(version)) for name, version in run.get("packages", {}).items())
    for line in lines:
        if line["kind"] == "subject":
            yield f"verdict.{line['subject']}", line["verdict"]


def _case(cell: Line, folder: str, *, fail_on: str) -> ET.Element:
    told = safe_data(cell)
    case = _named(
        f"attnspec.{told['mechanism']}.yaml",
        f"{told['law']}[{told['subject']}-{told['dtype']}]",
        told.get("run", {}).get("seconds", 0.0),
    )
    verdict, says = told["verdict"], told["says"]
    if verdict in ("not_declared", "not_tested"):
        _add(case, "skipped", f"{verdict}: {says}", kind="pytest.skip")
    elif verdict == "waived":
        _add(case, "skipped", f"waived {says}", kind="pytest.xfail")
    elif (weight := weight_of(told, fail_on)) == "note":
        why = f"note: {told['note']}: {says}" if "note" in told else f"known: {told['finding']}"
        _add(case, "skipped", why, kind="pytest.xfail")
    elif weight == "error":
        _add(case, "failure", failure(cell, folder))
    elif weight == "warning":
        _add(case, "skipped", f"should: {says or 'the law fails'}", kind="pytest.xfail")
    return case


def _unfinished(line: Mapping[str, Any]) -> ET.Element:
    kind, says = lacking(line)
    case = _named("", f"attnspec.{kind}[{safe(line['subject'])}]", 0.0)
    _add(case, "error", says)
    return case


def _named(classname: str, name: str, seconds: float) -> ET.Element:
    return ET.Element("testcase", classname=classname, name=name, time=f"{seconds:.3f}")


def _add(case: ET.Element, tag: str, text: str, *, kind: str = "") -> None:
    lines = text.splitlines()
    message = "\n".join(lines[:MESSAGE])
    attributes = {"type": kind, "message": message} if kind else {"message": message}
    ET.SubElement(case, tag, attributes).text = text
