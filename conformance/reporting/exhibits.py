"""A failure on the HTML page: its law, its counterexample as tables, what it behaves like, and the next commands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..mechanisms.mechanism import Mechanism
from . import heat
from .blocks import LEGEND, parts
from .formulas import mathml

Witness = Mapping[str, Any]
ENTRIES = 64
"""Entries of an array that are shown as tables."""
MAP = 24
"""Rows of a map that are shown."""
KINDS = {"o": "right", ".": "hidden", "+": "much", "-": "little", "!": "none"}
"""What the letters of a map are drawn as."""


@dataclass(frozen=True, slots=True)
class Plane:
    """The last two axes of an array, at one place of the others."""

    at: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input of the witness: in planes if it is small and known entry by entry, else as text."""

    name: str
    shape: str
    planes: tuple[Plane, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line: kept, taken away or put in."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A line of a definition that would have to be changed, as it was and as it would be."""

    line: str
    before: tuple[Piece, ...]
    after: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry of a map of weights."""

    letter: str
    kind: str


@dataclass(frozen=True, slots=True)
class Weights:
    """The map of weights: queries down, keys across."""

    words: str
    at: str
    rows: tuple[tuple[int, tuple[Mark, ...]], ...]
    legend: tuple[tuple[str, str, str], ...]
    """Letter, kind and meaning of what it has."""
    more: int
    """Rows that are left out."""
    grids: tuple[heat.Grid, ...]
    """The weights as they should be, and as they are."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and what it does."""

    says: str
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure in full."""

    anchor: str
    key: str
    address: str
    dtype: str
    device: str
    level: str
    full: bool
    """Whether it is a fault of its own, and not one that is shown elsewhere."""
    law: str
    formula: str
    """MathML, of a failure in full if it can be typeset."""
    holds: str
    place: str
    declared: str
    result: str
    comparison: tuple[tuple[str, str], ...]
    """The entry that is wrong most: what is compared, and its value."""
    heat: heat.Heat | None
    where: str
    smallest: str
    found: str
    tensors: tuple[Tensor, ...]
    when: Mapping[str, Any] | None
    weights: Weights | None
    causes: tuple[tuple[str, str], ...]
    evidence: str
    edits: tuple[Edit, ...]
    nearest: str
    finding: str
    broken: tuple[str, ...]
    then: str
    trace: str
    commands: tuple[Command, ...]
    untold: str
    """Why there is no command, if there is none."""


def failure(
    witness: Witness, cell: Mapping[str, Any], anchor: str, folder: str, mechanism: Mechanism | None = None
) -> Failure:
    """A failure whose cases were kept in a folder, of a mechanism if its specification is that of the run."""
    told = parts(witness, cell, folder)
    likeness = witness["likeness"] or {}
    nearest = witness.get("nearest") if not likeness and not cell.get("finding") else None
    commands = tuple(_commands(told))
    return Failure(
        anchor=anchor,
        key=witness["key"],
        address=f"{cell['mechanism']}.{cell['law']}",
        dtype=cell["dtype"],
        device=cell["device"],
        level=cell["level"],
        full=bool(witness.get("full")),
        law=witness["says"],
        formula=mathml(mechanism.formula) if mechanism is not None and witness.get("full") else "",
        holds=witness["holds"],
        place=witness["place"],
        declared=", ".join(f"{name} = {witness['words'].get(name, '')}" for name in witness["declared"]),
        result=told["result"],
        comparison=tuple(_comparison(witness["outcome"])),
        heat=heat.heat(witness["field"]) if witness.get("field") else None,
        where=told.get("where", ""),
        smallest=told.get("smallest", ""),
        found=told["found"],
        tensors=tuple(_tensors(witness)),
        when=witness.get("when"),
        weights=_weights(witness["map"]) if witness.get("map") else None,
        causes=() if likeness.get("changed") else tuple((c["name"], c["says"]) for c in likeness.get("causes", ())),
        evidence=told.get("evidence", "") or _agreement(likeness),
        edits=tuple(edit(one) for one in likeness.get("changed", ()) or _changes(likeness, mechanism)),
        nearest=_nearest(nearest) if nearest else "",
        finding=cell.get("finding", ""),
        broken=tuple(witness["broken"]),
        then=told.get("then", ""),
        trace=witness.get("trace", ""),
        commands=commands,
        untold="" if commands else told.get("replay", ""),
    )


def _commands(told: Mapping[str, str]) -> Iterator[Command]:
    says = {
        "replay": "Make the same call again",
        "repro": "Write it as a program that needs no attnspec",
        "waive": "Answer for it, for a while",
    }
    for name, text in says.items():
        line = re.sub(r" \\\n\s*", " ", told.get(name, ""))
        if line.startswith("attnspec "):
            yield Command(text, line)


def _comparison(outcome: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if outcome is None:
        return
    entry = ", ".join(map(str, outcome["where"]))
    yield "entry", f"{outcome.get('output', '')}[{entry}]" if entry else "the only one"
    yield "returned", _value(outcome["found"])
    yield "expected", _value(outcome["expected"])
    if isinstance(outcome["found"], float) and isinstance(outcome["expected"], float):
        yield "difference", f"{outcome['found'] - outcome['expected']:.6g}"
    yield "bound", _value(outcome["bound"])
    if outcome["units"] is not None:
        yield "error", f"{outcome['units']:.3g} × the bound"
    yield "entries beyond", f"{outcome['spoiled']} of {outcome['entries']}"


def _value(x: Any) -> str:
    return "unbounded" if x is None else f"{x:.7g}" if isinstance(x, float) else str(x)


# Arrays


def _tensors(witness: Witness) -> Iterator[Tensor]:
    """Inputs and what a law drew for itself, entry by entry where the case has them so."""
    literals = witness["case"].get("literals", {})
    for name, text in {**witness["arrays"], **witness["givens"]}.items():
        literal = literals.get(name, {}) if name in witness["arrays"] else {}
        shape, entries = literal.get("shape", ()), literal.get("entries", ())
        small = 0 < len(entries) <= ENTRIES and len(shape) > 0
        yield Tensor(name, " × ".join(map(str, shape)), tuple(planes(shape, entries)) if small else (), text)


def planes(shape: Sequence[int], entries: Sequence[Any]) -> Iterator[Plane]:
    """An array in C order as tables of its last two axes."""
    height, width = (1, *shape)[-2:]
    count = len(entries) // (height * width)
    for number in range(count):
        rest, at = number, []
        for size in reversed(shape[:-2]):
            rest, index = divmod(rest, size)
            at.insert(0, str(index))
        own = entries[number * height * width : (number + 1) * height * width]
        rows = tuple(tuple(map(_entry, own[i : i + width])) for i in range(0, len(own), width))
        yield Plane(f"[{', '.join(at)}]" if count > 1 else "", rows)


def _entry(x: Any) -> str:
    return f"{x:.5g}" if isinstance(x, float) else str(x)


def _weights(seen: Mapping[str, Any]) -> Weights:
    rows = seen["rows"][:MAP]
    used = [letter for letter in LEGEND if any(letter in row for row in rows)]
    return Weights(
        seen["words"],
        f"in {seen['case']}" + (f", {seen['plane']}" if seen["plane"] else ""),
        tuple((seen["first"] + i, tuple(Mark(x, KINDS.get(x, "")) for x in row)) for i, row in enumerate(rows)),
        tuple((letter, KINDS[letter], LEGEND[letter]) for letter in used),
        len(seen["rows"]) - len(rows),
        heat.weights(seen),
    )


# What it behaves like


def _changes(likeness: Mapping[str, Any], mechanism: Mechanism | None) -> Iterator[Mapping[str, str]]:
    """The lines of the definition that named mistakes change."""
    if mechanism is None or mechanism.library is None:
        return
    known = {*mechanism.library}
    for cause in likeness.get("causes", ()):
        owner, _, name = cause["name"].partition(".")
        if owner not in known:
            continue
        stated = mechanism.library[owner]
        for line, after in stated.mistakes[name].change.items() if name in stated.mistakes else ():
            before = stated.definition.get(line)
            yield {"line": line, "before": before.text if before is not None else line, "after": after.text}


def _agreement(likeness: Mapping[str, Any]) -> str:
    if not likeness:
        return ""
    return f"{likeness['causes'][0]['says']}, which matches the subject on all {likeness['agreed']} cases that show it"


def _nearest(nearest: Mapping[str, Any]) -> str:
    return (
        f"No known mistake fits. The nearest is {nearest['name']}: {nearest['says']} "
        f"It matches the subject on {nearest['agreed']} of {nearest['cases']} cases."
    )


def edit(changed: Mapping[str, Any]) -> Edit:
    """A changed line, word by word."""
    before, after = (re.findall(r"\w+|\s+|[^\w\s]", changed[name]) for name in ("before", "after"))
    steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return Edit(
        changed["line"],
        _pieces((kind, before[i:j]) for kind, i, j, _, _ in steps),
        _pieces((kind, after[i:j]) for kind, _, _, i, j in steps),
    )


def _pieces(steps: Iterable[tuple[str, Sequence[str]]]) -> tuple[Piece, ...]:
    return tuple(Piece("same" if kind == "equal" else "changed", "".join(words)) for kind, words in steps if words)
