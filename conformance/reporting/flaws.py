"""The failures of a run for CI formats: where, how severe, and what to read there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..data.texts import safe_data
from .blocks import failure
from .blocks import line as in_one_line
from .results import Line, place_of, witnessed
from .standings import lacking, unfinished

Weight = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Flaw:
    """A failure, or a subject that was not tested completely."""

    law: str
    """As MECHANISM.LAW; `required` or `partial` for a subject that was not tested."""
    sentence: str
    """What the law says."""
    subject: str
    dtype: str
    weight: Weight
    head: str
    """What is wrong, in a line."""
    text: str
    """The whole of it, as a terminal shows it."""
    file: str = ""
    """The file of the subject's function, relative to the folder of the run; empty where it is not below that."""
    line: int = 0
    key: str = ""
    """The case that shows it, if one was kept."""
    waived: str = ""
    """Who answers for it, and until when, if anybody does."""


def weight_of(cell: Mapping[str, Any], fail_on: str) -> Weight | None:
    """How much a cell matters: an error fails the run. None for one that does not fail."""
    if cell["verdict"] == "waived":
        return "note"
    if cell["verdict"] not in ("fail", "error", "internal"):
        return None
    if cell.get("note") or (fail_on == "new" and cell.get("finding")):
        return "note"
    return "error" if cell["level"] == "must" or fail_on == "should" else "warning"


def flaws(lines: Sequence[Line], folder: str) -> list[Flaw]:
    """The flaws of a run whose cases are kept in a folder, the weightiest first.

    What one fault breaks beside the law that shows it in full is left out.
    """
    fail_on = str(lines[0].get("fail_on", "must"))
    places = {line["subject"]: str(line["place"]) for line in lines if line["kind"] == "expected" and "place" in line}
    found = [*_failing(lines, folder, fail_on, places), *_untested(lines, places)]
    return sorted(found, key=lambda flaw: ("error", "warning", "note").index(flaw.weight))


def _failing(lines: Sequence[Line], folder: str, fail_on: str, places: Mapping[str, str]) -> Iterator[Flaw]:
    cells = [line for line in lines if line["kind"] == "cell"]
    shown = witnessed(cells)
    for line in cells:
        weight = weight_of(line, fail_on)
        cell = safe_data(line)
        witness = cell.get("witness", {})
        if weight is None or not witness.get("full", True):
            continue
        if not witness and place_of(line) in shown:
            continue
        file, number = _parted(places.get(cell["subject"], ""))
        yield Flaw(
            law=f"{cell['mechanism']}.{cell['law']}",
            sentence=witness.get("says", ""),
            subject=cell["subject"],
            dtype=cell["dtype"],
            weight=weight,
            head=_head(cell),
            text=failure(cell, folder),
            file=file,
            line=number,
            key=witness.get("key", ""),
            waived=cell["says"] if cell["verdict"] == "waived" else "",
        )


def _head(cell: Mapping[str, Any]) -> str:
    """A failure in a line, with what it looks like."""
    witness = cell.get("witness")
    if witness is None:
        return _spaced(failure(cell, ""))
    likeness = witness.get("likeness")
    like = "; like " + ", ".join(f"{c['name']}: {c['says']}" for c in likeness["causes"]) if likeness else ""
    return _spaced(in_one_line(witness, cell)) + like


def _spaced(text: str) -> str:
    return re.sub(r"\s{2,}", ", ", text.strip())


def _untested(lines: Sequence[Line], places: Mapping[str, str]) -> Iterator[Flaw]:
    for line in unfinished(lines):
        kind, says = lacking(line)
        file, number = _parted(places.get(line["subject"], ""))
        head = says.partition("\n")[0]
        yield Flaw(kind, "", str(line["subject"]), "", "error", head, says, file, number)


def _parted(place: str) -> tuple[str, int]:
    file, _, number = place.rpartition(":")
    return (file, int(number)) if number.isdigit() else ("", 0)
