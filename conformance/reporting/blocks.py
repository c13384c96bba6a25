"""A failure as people read it: the law, the smallest counterexample, harmless causes, and the next commands.

It fits on a screen, whatever the witness is.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..data.texts import safe_data
from ..errors import Error
from ..subjects.targets import files_of
from .advice import advice, value
from .typesetting import WIDTH, command

HEIGHT, NARROW = 24, 4
"""Lines of a block, and how many more of them where they are short."""
LABEL = 10
ROWS, FEWEST = 6, 3
"""Rows of a map where there is room for them, and where there is not."""
FOLDER = "attnspec-report"
"""Where cases are looked for, unless otherwise asked for."""
DRAWN = ("Weights", "Like", "Waive")
"""Entries whose further lines are as they are."""
LEGEND = {"o": "ok", ".": "hidden", "+": "too large", "-": "too small", "!": "NaN"}
Witness = Mapping[str, Any]


def block(witness: Witness, cell: Mapping[str, Any], width: int = WIDTH, folder: str = FOLDER) -> list[str]:
    """The lines of a block, of a case that was kept in a folder; of none if that is empty."""
    tail = f" case {witness['key']}"
    head = f"== {cell['subject']}   {cell['mechanism']}.{cell['law']}   {cell['dtype']} {cell['device']}"
    head = _short(head, width - len(tail) - 3) + " "
    rows, height = ROWS, HEIGHT + NARROW * (width < WIDTH)
    entries = _written(witness, cell, rows, width, folder)
    while _excess(entries, height) > 0 and rows > FEWEST:
        rows -= 1
        entries = _written(witness, cell, rows, width, folder)
    if (count := _excess(entries, height)) > 0:
        entries = _without_arrays(entries, count + 1)
    for least in ("Weights", "Found"):
        if _excess(entries, height) > 0:
            entries = [entry for entry in entries if entry[0] != least]
    return [head + "=" * (width - len(head) - len(tail)) + tail, *(line for _, lines in entries for line in lines)]


def _written(
    witness: Witness, cell: Mapping[str, Any], rows: int, width: int, folder: str
) -> list[tuple[str, list[str]]]:
    room = width - LABEL
    return [(label, _entry(label, text, room)) for label, text in _entries(witness, cell, rows, room, folder)]


def _excess(entries: Sequence[tuple[str, list[str]]], height: int) -> int:
    """The lines that do not fit on a screen."""
    return 1 + sum(len(lines) for _, lines in entries) - height


def _without_arrays(entries: Sequence[tuple[str, list[str]]], count: int) -> list[tuple[str, list[str]]]:
    """The entries without the last `count` arrays, and a line that says so."""
    left_out = [i for i, (label, _) in enumerate(entries) if label in ("input", "given")][-count:]
    kept = [entry for i, entry in enumerate(entries) if i not in left_out]
    if left_out:
        kept.insert(left_out[0], ("", _entry("", f"and {len(left_out)} more", WIDTH)))
    return kept


def failure(cell: Mapping[str, Any], folder: str, width: int = WIDTH) -> str:
    """A cell that fails, by itself: its block where it has a witness, else one line."""
    cell = safe_data(cell)
    if "witness" in cell:
        return "\n".join(block(cell["witness"], cell, width, folder))
    says = cell["says"] or "the law fails"
    if cell["verdict"] == "internal":
        says = f"attnspec itself failed: {says}"
    says += f"   note: {cell['note']}" if cell.get("note") else ""
    return f"{cell['subject']}   {cell['mechanism']}.{cell['law']}   {cell['dtype']}   {says}"


def line(witness: Witness, cell: Mapping[str, Any]) -> str:
    """A failure in one line."""
    address = f"{cell['mechanism']}.{cell['law']}"
    count = len(witness["broken"])
    more = f", and {count} more law{'s' * (count > 1)}" if count else ""
    more += f"   known: {cell['finding']}" if cell.get("finding") else ""
    error = _error(witness, cell) + (f", on {_sizes(witness['sizes'])}" if cell["verdict"] == "error" else "")
    if follows := witness.get("follows"):
        more += ", as its outputs are wrong" if follows["told"] else ", as without gradients"
    return f"{cell['subject']}   {address}   {cell['dtype']}   {error}{more}   case {witness['key']}"


def _entry(label: str, text: str, room: int) -> list[str]:
    """The lines of an entry: at most two of text, and after them what is drawn."""
    first, *drawn = text.splitlines() if label in DRAWN else [text]
    wrapped = textwrap.wrap(first, room, max_lines=2, placeholder=" ...", break_on_hyphens=False) or [""]
    return [f"{label:<{LABEL}}{wrapped[0]}", *(" " * LABEL + more for more in (*wrapped[1:], *drawn))]


def _entries(witness: Witness, cell: Mapping[str, Any], rows: int, room: int, folder: str) -> Iterator[tuple[str, str]]:
    yield "Law", witness["says"]
    if witness["holds"]:
        yield "", witness["holds"]
    words = ", ".join(f"{name} = {witness['words'][name]}" for name in witness["declared"])
    yield "", witness["place"] + (f"   declared: {words}" if words else "")
    yield "Smallest", _sizes(witness["sizes"])
    for name, text in {**witness["arrays"], **witness["givens"]}.items():
        yield ("given" if name in witness["givens"] else "input"), _short(f"{name} = {text}", room)
    yield "Result", _error(witness, cell)
    if witness["outcome"]:
        yield "Where", _where(witness["outcome"])
    origin = witness["from"]
    tried = origin["tried"]
    steps = f", shrunk in {tried} step{'s' * (tried != 1)}" if tried else ""
    yield "Found", f"in {_named(origin)}{steps}"
    yield from _when(witness)
    if witness.get("map"):
        yield from _map(witness["map"], rows, room)
    if witness["likeness"]:
        yield from _likeness(witness["likeness"], room)
    elif witness.get("nearest") and not cell.get("finding"):
        yield from _nearest(witness["nearest"])
    if witness["broken"]:
        yield "Also", "fails " + ", ".join(witness["broken"])
    if cell.get("finding"):
        yield "Known", f"{cell['finding']}: attnspec explain {cell['finding']}"
    if cell.get("note"):
        yield "Note", f"{cell['note']}; it does not fail a run until 'attnspec freeze' renews the pin"
    yield "Then", advice(witness, cell)
    yield "Replay", _replay(witness, folder)
    if folder and not witness.get("alone") and not witness.get("large"):
        yield "Repro", f"attnspec repro {witness['key']}{_at(folder)}{_trust(witness)}"
    if witness.get("level") == "must" and folder and not cell.get("finding") and not cell.get("note"):
        waive = f"attnspec waive {witness['key']}{_at(folder)} --issue URL --owner NAME --reason TEXT --expires DAY"
        yield "Waive", "\n".join(command(waive, room))


def _when(witness: Witness) -> Iterator[tuple[str, str]]:
    """On which condition it fails, or after which calls."""
    count = len(witness.get("before", ()))
    if witness.get("after"):
        yield "When", f"{witness['after']}; replay first makes {'that call' if count == 1 else 'those calls'}"
    elif witness.get("dependent"):
        yield "", f"it passes in a new process: it needs the calls of {count} earlier cases, or fails sometimes"
    if witness.get("when"):
        yield "When", witness["when"]["says"]


def _replay(witness: Witness, folder: str) -> str:
    """The command that makes the same call again, or why there is none."""
    if not folder:
        return "no case was stored: pass report_dir, so that 'attnspec replay' can make the same call again"
    if witness.get("alone"):
        return "call the same function again: it is in no file, so another process cannot load it"
    return f"attnspec replay {witness['key']}{_at(folder)}{_trust(witness)}"


def _trust(witness: Witness) -> str:
    """The option that lets a case run a file outside the current folder, where the user has named such a file."""
    with suppress(Error):
        whole = [path.resolve() for path in files_of(witness.get("target", ""))]
        return " --trust" if any(not path.is_relative_to(Path.cwd().resolve()) for path in whole) else ""
    return ""


def _at(folder: str) -> str:
    """The option that names a folder which is not the usual one."""
    return "" if folder == FOLDER else f" --report-dir {shlex.quote(folder)}"


def _map(seen: Mapping[str, Any], most: int, room: int) -> Iterator[tuple[str, str]]:
    """Where else a subject is wrong, and at most so many rows of its map, with a legend beside it or below."""
    at = f"in {_labelled(seen['case'])}" + (f", {seen['plane']}" if seen["plane"] else "")
    if not seen["rows"]:
        yield ("" if seen["words"].find("is wrong at") > 0 else "Weights"), f"{at}: {seen['words']}"
        return
    shown = seen["rows"][:most]
    used = ", ".join(f"{letter} {LEGEND[letter]}" for letter in LEGEND if any(letter in row for row in shown))
    rows = [_short(f"query {seen['first'] + i:<3} {row}", room) for i, row in enumerate(shown)]
    width = len(rows[0])
    if width + 3 + max(len(at), len(used)) <= room:
        legend = zip_longest(rows, (at, used), fillvalue="")
        rows = [f"{row:<{width}}   {text}".rstrip() for row, text in legend]
    else:
        rows += textwrap.wrap(f"{at}: {used}", room)
    yield "Weights", "\n".join([seen["words"], *rows])


def _likeness(likeness: Mapping[str, Any], room: int) -> Iterator[tuple[str, str]]:
    """What a subject behaves like, and on what evidence."""
    if likeness.get("changed"):
        yield from _edited(likeness, room)
        return
    causes, others = likeness["causes"], likeness["others"]
    same = f" (or {', '.join(others[:2])}, which gives the same results)" if others else ""
    for i, cause in enumerate(causes):
        yield ("Like" if i == 0 else "and"), f"{cause['name']}{same if i == len(causes) - 1 else ''}: {cause['says']}"
    both = len(causes) > 1
    cases = "the one case" if likeness["agreed"] == 1 else f"all {likeness['agreed']} cases"
    evidence = (
        f"{'together they match' if both else 'it matches'} the subject on {cases} where "
        f"{'they differ' if both else 'it differs'} from the definition"
    )
    if likeness["by_laws"]:
        evidence = f"it fails the same laws on the same cases, {likeness['agreed']} times, and passes the others"
    if likeness["runner_up"]:
        evidence += f"; the next best is {likeness['runner_up']}, which differs on {likeness['differs']}"
    yield "", evidence


def _edited(likeness: Mapping[str, Any], room: int) -> Iterator[tuple[str, str]]:
    """The lines that would have to be changed, and on what evidence."""
    lines = [line for one in likeness["changed"] for line in _changed(one, room)]
    says = f"{likeness['causes'][0]['says']} (matches the subject on all {likeness['agreed']} cases that show it):"
    same = [text for other in likeness["others"][:2] for text in _also(other, likeness["changed"][0], room)]
    yield "Like", "\n".join([says, *(_short(text, room) for text in (*lines, *same))])


def _also(other: str, shown: Mapping[str, Any], room: int) -> list[str]:
    """Another change with the same results, without what it has in common with the one that is shown."""
    start = "or, with the same results,"
    own = other.removeprefix(f"{shown['line']}: {shown['before']} ")
    if len(start) + 1 + len(own) <= room:
        return [f"{start} {own}"]
    before, arrow, after = own.partition(" -> ")
    return [f"{start} {before}", f"{'':>{len(start)}} -> {after}"] if arrow else [f"{start} {own}"]


def _changed(one: Mapping[str, Any], room: int) -> list[str]:
    """A line as it was and as it would have to be, beside each other where there is room."""
    start = f"{one['line']}:  "
    beside = f"{start}{one['before']}   ->   {one['after']}"
    return [beside] if len(beside) <= room else [f"{start}{one['before']}", f"{'->':>{len(start) - 2}}  {one['after']}"]


def _nearest(nearest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What comes nearest where nothing fits; it is not claimed."""
    yield "Like", f"no known mistake fits; the nearest is {nearest['name']}: {nearest['says']}"
    yield "", f"it matches the subject on {nearest['agreed']} of {nearest['cases']} cases"


def _named(origin: Mapping[str, Any]) -> str:
    label = origin["label"]
    if label.startswith(("pair ", "draw ", "further ")):
        return label + (f" (regime {origin['regime']})" if origin["regime"] else "")
    return _labelled(label)


def _labelled(label: str) -> str:
    return label if label.startswith(("pair ", "draw ", "further ")) else f"scenario {label}"


def _sizes(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value(x)}" for name, x in values.items() if x is not None and _telling(name, x))


def _telling(name: str, x: Any) -> bool:
    return not (x is False or (name == "mask" and x is True) or (name == "bias" and x == 0) or x == "-inf")


def _error(witness: Witness, cell: Mapping[str, Any]) -> str:
    outcome = witness["outcome"]
    if cell["law"] == "contract.precision":
        return cell["says"]
    if outcome is None:
        return witness["reason"] or cell["says"] or "the claim is false"
    found, expected = _number(outcome["found"]), _number(outcome["expected"])
    missed = outcome.get("missed")
    if missed and missed["units"] is not None:
        return (
            f"got {found}, expected {expected}: the error from the definition is {missed['units']:.3g} x the bound "
            f"{_number(missed['bound'])} ({witness['grade']})"
        )
    if outcome["units"] is None:
        return f"got {found}, expected {expected}" + (f": {witness['reason']}" if witness["reason"] else "")
    kind = "" if witness["certain"] else ", beyond the likely bound but within the worst-case bound"
    return (
        f"got {found}, expected {expected}: the error is {outcome['units']:.3g} x the bound "
        f"{_number(outcome['bound'])} ({witness['grade']}{kind})"
    )


def _number(x: Any) -> str:
    return f"{x:.6g}" if isinstance(x, int | float) else "unbounded" if x is None else str(x)


def _where(outcome: Mapping[str, Any]) -> str:
    output = outcome.get("output", "")
    place = f"{output or 'entry '}{outcome['where']}, " if outcome["where"] else ""
    share = f"{outcome['spoiled']} of {outcome['entries']} entries" if outcome["entries"] > 1 else "the only entry"
    share += " that were judged" if output else ""
    return f"{place}{share} beyond the bound" if outcome["units"] is not None else f"{place}{share}"


def told_of_others(cells: Sequence[dict[str, Any]]) -> Iterator[tuple[Witness, dict[str, Any]]]:
    """The failures that have a witness, each with what else is wrong with the same subject, wherever it was found.

    That no word of a convention explains the results comes last: as often as not this follows from a mistake that a
    law of another mechanism shows.
    """
    wrong: dict[str, list[str]] = {}
    for cell in cells:
        if cell["verdict"] in ("fail", "error") and cell["level"] == "must" and cell["law"] != "contract.precision":
            wrong.setdefault(cell["subject"], []).append(_address(cell))
    for cell in sorted(cells, key=lambda cell: cell["law"].startswith("convention.")):
        if "witness" in cell:
            others = [address for address in wrong.get(cell["subject"], []) if address != _address(cell)]
            yield {**cell["witness"], "elsewhere": others}, cell


def _address(cell: Mapping[str, Any]) -> str:
    return f"{cell['mechanism']}.{cell['law']} in {cell['dtype']}"


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 4].rstrip() + " ..."


def texts(
    witnessed: Sequence[tuple[Witness, Mapping[str, Any]]],
    full: int,
    width: int = WIDTH,
    folder: str = FOLDER,
    above: Collection[str] = (),
) -> Iterator[str]:
    """So many failures as blocks, of every subject the first one before any second one, and the others in one line.

    Those whose cases are `above` have had their blocks before.
    """
    shown = _chosen(witnessed, full)
    before = [index for index in shown if witnessed[index][0]["key"] in above]
    for index in shown:
        if index not in before:
            yield "\n".join(block(*witnessed[index], width, folder))
            yield ""
    rest = [pair for index, pair in enumerate(witnessed) if index in before or index not in shown]
    for witness, cell in rest:
        yield line(witness, cell)
    if any(witness.get("full") for index, (witness, _) in enumerate(witnessed) if index not in shown):
        yield f"{len(shown)} of {len(witnessed)} failures are shown in full; use -v to see all"
    if rest:
        yield ""


def _chosen(witnessed: Sequence[tuple[Witness, Mapping[str, Any]]], full: int) -> list[int]:
    turns: dict[str, int] = {}
    ranked = []
    for index, (witness, cell) in enumerate(witnessed):
        if witness.get("full"):
            turn = turns[cell["subject"]] = turns.get(cell["subject"], 0) + 1
            ranked.append((turn, index))
    return sorted(index for _, index in sorted(ranked)[:full])


# For other forms of a report


def parts(witness: Witness, cell: Mapping[str, Any], folder: str = FOLDER) -> dict[str, str]:
    """The sentences and the commands of a block by name, as long as they are; those that do not apply are left out."""
    rows, room = ROWS, 10**6
    labels = {"Result": "result", "Where": "where", "Found": "found", "Then": "then", "Replay": "replay"}
    labels |= {"Repro": "repro", "Waive": "waive", "Smallest": "smallest"}
    found = {labels[name]: text for name, text in _entries(witness, cell, rows, room, folder) if name in labels}
    if witness["likeness"] and not witness["likeness"].get("changed"):
        *_, (_, found["evidence"]) = _likeness(witness["likeness"], room)
    return found
