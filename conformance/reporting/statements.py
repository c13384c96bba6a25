"""A subject in sentences: what it is, what was claimed and tested, what is wrong, and what is known about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..mechanisms.mechanism import Mechanism
from . import matrix
from .exhibits import Failure
from .findings import named
from .results import Line, grades
from .summary import familiar

COUNTED = ("pass", "fail", "error", "waived")
"""Verdicts of what was tried."""
NAMES = {"pass": "holds", "fail": "fails", "error": "raises", "internal": "internal error", "waived": "waived"}
NAMES |= {"not_tested": "not tested", "not_declared": "not claimed", "should": "fails (should)"}
PLURAL = {"pass": "hold", "fail": "fail", "error": "raise", "waived": "waived"}


@dataclass(frozen=True, slots=True)
class Statement:
    """Sentences under a heading, each with the anchor of what it speaks of, if it has one."""

    term: str
    sentences: tuple[tuple[str, str], ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Untested:
    """What was not tested for one reason."""

    reason: str
    count: int
    kind: str
    what: tuple[tuple[str, str], ...]
    """Mechanisms, and what of them."""


def statements(
    line: Mapping[str, Any],
    cells: Sequence[Line],
    failures: Sequence[Failure],
    further: Sequence[str],
    untested: Sequence[Untested],
    known: Mapping[str, Mechanism],
) -> Iterator[Statement]:
    """What it is, what was claimed, tried and not tried, what is wrong, and what is known of that."""
    yield Statement("What it is", ((_identity(line, known), ""),))
    yield Statement("Claimed", tuple((text, "") for text in _claims(cells)))
    yield Statement("Tried", tuple((text, "") for text in _tried(line, cells)))
    lacking = [(f"{u.count} not tested: {u.reason}", "") for u in untested if u.kind != "not_declared"]
    weak = [(text, "") for text in (*line["reasons"], *line["unmet"], *line["beside"])]
    rest = sum(u.count for u in untested if u.kind == "not_declared")
    lacking += [(f"{rest} not claimed", "")] if rest else []
    yield Statement("Not tried", (*weak, *lacking) or (("Everything that was planned was tried.", ""),), "gap")
    wrong = tuple((f"{f.address} in {f.dtype}: {f.result}", f.anchor) for f in failures if f.full)
    others = sum(not f.full for f in failures) + len(further)
    more = ((f"{others} more failure{'s' * (others > 1)}, below", ""),) if others else ()
    yield Statement("Wrong", (*wrong, *more) or (("Nothing that was found.", ""),), "bad" if wrong or more else "good")
    told = tuple(dict.fromkeys((text, "") for text in _known(line, failures)))
    if told:
        yield Statement("Known", told)
    for title, found in (("Waived", matrix.waived(cells)), ("Notes", matrix.noted(cells))):
        if found.rows:
            yield Statement(title, tuple((f"{laws} in {dtypes}: {says}", "") for _, laws, dtypes, says in found.rows))


def _identity(line: Mapping[str, Any], known: Mapping[str, Mechanism]) -> str:
    operators = line["operator"].split(", ")
    told = [f"{name} ({known[name].title})" if name in known else name for name in operators]
    return f"An implementation of {', '.join(told)}."


def _claims(cells: Sequence[Line]) -> Iterator[str]:
    claimed = [cell for cell in cells if cell["verdict"] != "not_declared"]
    mechanisms = list(dict.fromkeys(cell["mechanism"] for cell in claimed))
    dtypes = ", ".join(dict.fromkeys(cell["dtype"] for cell in claimed))
    count = "1 mechanism" if len(mechanisms) == 1 else f"{len(mechanisms)} mechanisms"
    yield f"{count} in {dtypes}" if claimed else "Nothing that was asked for."
    declared: dict[str, None] = {}
    for cell in cells:
        for name, found in cell.get("run", {}).get("conventions", {}).items():
            if found["how"] == "declared":
                declared[f"{name} = {found['word']}"] = None
    if declared:
        yield "Conventions: " + ", ".join(declared)
    for dtype, grade in {c["dtype"]: c["run"]["claimed"] for c in cells if c.get("run", {}).get("claimed")}.items():
        yield f"Precision: {grade} in {dtype}"


def _tried(line: Mapping[str, Any], cells: Sequence[Line]) -> Iterator[str]:
    cases, calls, seconds = (
        sum(cell["run"].get(name, 0) for cell in cells if cell.get("run")) for name in ("cases", "calls", "seconds")
    )
    counts = Counter(cell["verdict"] for cell in cells)
    tried = sum(counts[verdict] for verdict in COUNTED)
    yield f"{tried} of {len(cells)} laws by dtype, on {cases} cases with {calls} calls, in {seconds:.1f} s"
    yield ", ".join(f"{counts[verdict]} {PLURAL[verdict]}" for verdict in COUNTED if counts[verdict])
    found = matrix.followed(cells)
    if found.rows:
        words = ", ".join(f"{name} = {word}" for name, word in zip(found.columns[1:], found.rows[0][1:], strict=True))
        yield f"Conventions seen (* observed, ? explains not everything): {words}"
    needed = grades(cells)
    if needed:
        yield "Precision needed: " + ", ".join(f"{grade} in {dtype}" for dtype, grade in needed.items())


def _known(line: Mapping[str, Any], failures: Sequence[Failure]) -> Iterator[str]:
    for found in (f for f in failures if f.full):
        for name, says in found.causes:
            yield f"It behaves like {name}: {says}"
        if found.edits:
            yield f"It behaves like the definition with {found.edits[0].line} changed."
        if found.when:
            says = found.when["says"]
            yield says[:1].upper() + says[1:]
    yield from familiar({**line})
    for name in line.get("known", {}).get("cells", ()):
        finding = named(name)
        if finding is not None:
            yield f"{name}: {finding.heading}. {finding.matters or finding.happens}"
