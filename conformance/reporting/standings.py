"""The overall verdict on a subject: what its cells amount to, and why it may be incomplete.

All of it is read from the lines of a run, so that a file that was cut off says what the run itself would have said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..data.texts import safe
from ..errors import Exit, UsageError
from ..judging.coverage import declined as refused
from ..judging.requirements import unmet
from ..mechanisms.library import Library
from ..mechanisms.loader import Specs, library
from .records import Known, Stands

Line = Mapping[str, Any]
Key = tuple[str, str, str, str]
"""Subject, mechanism, dtype and law."""
INTERRUPTED = "the run was interrupted"
FAILED = "attnspec or pytest failed in the middle of the run"
UNENDED = "the run has no end"
"""Why a run is not whole whose lines stop before their end."""
LOST = "they were lost on the way, with whatever they would have said"
"""Why cells are missing from a run that came to its end."""
NAMED = 3
"""Cells that a reason names."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A verdict: `violated`, `partial`, `waived`, `conformant` or `not_tested`.

    `reasons` say in plain sentences why it is partial, or would be if it were not violated.
    """

    verdict: Stands
    reasons: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    """What was required of the run and is not there; with any of it a subject is violated."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a run has of one subject."""

    header: Line
    subject: str
    cells: Sequence[Line]
    missing: Sequence[Key]
    """The cells that were to come and did not."""
    ended: str
    """Why the run ended early; nothing if it did not."""

    @property
    def laws(self) -> list[Line]:
        """The cells that are about what is computed, and not about how it is called or named."""
        return [cell for cell in self.cells if not cell["law"].startswith(("contract.", "convention."))]


# Reasons


def lost(account: Account) -> Iterator[str]:
    """The cells that were to come and did not."""
    if account.missing:
        count = len(account.missing)
        of = f"{count} of {count + len(account.cells)} cells {'is' if count == 1 else 'are'} missing"
        yield f"{of} ({_named(account.missing)}): {account.ended or LOST}"


def broken_off(account: Account) -> Iterator[str]:
    """The groups that ended before their last case."""
    groups: dict[str, set[tuple[str, str]]] = {}
    for cell in account.cells:
        why = cell.get("run", {}).get("ended", "")
        if why:
            groups.setdefault(why, set()).add((cell["mechanism"], cell["dtype"]))
    for why, own in groups.items():
        cells = [c for c in account.cells if (c["mechanism"], c["dtype"]) in own]
        untried = sum(c["verdict"] == "not_tested" and c["says"] == why for c in cells)
        rest = "the others had fewer cases than planned" if untried < len(cells) else ""
        told = (
            f"{untried} of {len(account.cells)} cells were not tried" if untried else "not all planned cases were tried"
        )
        yield f"{why}: {told}" + (f", and {rest}" if untried and rest else "")


def unjudged(account: Account) -> Iterator[str]:
    """The cells on which attnspec itself failed."""
    own = [cell for cell in account.cells if cell["verdict"] == "internal"]
    if own:
        keys = [_key(cell, cell["law"]) for cell in own]
        yield f"attnspec failed on {_count(len(own))} ({_named(keys)}): {own[0]['says']}"


def declined(account: Account) -> Iterator[str]:
    """The mechanisms of which too many scenarios were refused."""
    return refused(account.cells)


REASONS: tuple[Callable[[Account], Iterator[str]], ...] = (lost, broken_off, unjudged, declined)
"""What may make a subject partial, each with the sentences that say so."""


# Standings


def standings(lines: Sequence[Line], ended: str | None = None) -> dict[str, Standing]:
    """How every subject of a run stands.

    `ended` says why the run ended early, and nothing if it did not; without it, the last line does.
    """
    return {account.subject: _standing(account) for account in accounts(lines, ended)}


def accounts(lines: Sequence[Line], ended: str | None = None) -> Iterator[Account]:
    """What a run has of every subject, in the order in which they were asked for."""
    why = why_ended(lines) if ended is None else ended
    cells: dict[str, list[Line]] = {}
    for line in lines:
        if line["kind"] in ("expected", "cell"):
            own = cells.setdefault(line["subject"], [])
            own += [line] if line["kind"] == "cell" else []
    lacking = missing(lines)
    for subject, own in cells.items():
        yield Account(lines[0], subject, own, [key for key in lacking if key[0] == subject], why)


def missing(lines: Iterable[Line]) -> list[Key]:
    """The cells that a run expected and does not have."""
    expected: dict[Key, None] = {}
    found: set[Key] = set()
    for line in lines:
        if line["kind"] == "expected":
            expected |= dict.fromkeys(_key(line, law) for law in line["laws"])
        elif line["kind"] == "cell":
            found.add(_key(line, line["law"]))
    return [key for key in expected if key not in found]


def why_ended(lines: Iterable[Line]) -> str:
    """Why a run ended early, from its last line; nothing if it did not."""
    end = next((line for line in lines if line["kind"] == "end"), None)
    return UNENDED if end is None else end.get("ended", "")


def whole(lines: Sequence[Line]) -> bool:
    """Whether a run has come to its end with nothing left out."""
    end = next((line for line in lines if line["kind"] == "end"), {"partial": True})
    return not end["partial"]


def altered(lines: Iterable[Line]) -> bool:
    """Whether somebody else had written into the results while the run did."""
    return any(line.get("altered") for line in lines if line["kind"] == "end")


# Known findings


def violates(cell: Line, *, strict: bool) -> bool:
    """Whether a cell makes its subject violated; a `strict` run counts laws that only should hold."""
    return cell["verdict"] in ("fail", "error") and not cell.get("note") and (cell["level"] == "must" or strict)


def known(cells: Sequence[Line], *, strict: bool) -> Known | None:
    """The violations of a subject by the known findings that they belong to; None where nothing is known of it."""
    bad = [c for c in cells if violates(c, strict=strict)]
    seen = Counter(cell["finding"] for cell in bad if cell.get("finding"))
    anywhere = {cell.get("finding") for cell in cells}
    held = [name for cell in cells for name in cell.get("run", {}).get("mended", ()) if name not in anywhere]
    mended = [name for name in held if _whole(name, cells)]
    if not seen and not mended:
        return None
    return {"cells": dict(seen), "new": len(bad) - seen.total(), "mended": list(dict.fromkeys(mended))}


def _whole(finding: str, cells: Sequence[Line]) -> bool:
    """Whether all laws of a finding were run, in dtypes that it is about: where some hold, others may show it."""
    from .findings import named

    known = named(finding)
    told = known.seen if known else ()
    asked = {(cell["mechanism"], cell["law"], cell["dtype"]) for cell in cells if cell["verdict"] != "not_tested"}
    dtypes = {cell["dtype"] for cell in cells}
    return all(
        any((*law.split(".", 1), dtype) in asked for dtype in (seen.dtypes or dtypes))
        for seen in told
        if any(cell["subject"] in seen.subjects for cell in cells)
        for law in seen.laws
    )


def excused(line: Line, header: Line) -> bool:
    """Whether a run that fails on what is new passes over the violations of a subject, which are all known."""
    new = line.get("known", {}).get("new", 1)
    return header.get("fail_on") == "new" and line["verdict"] == "violated" and not line["unmet"] and new == 0


def _standing(account: Account) -> Standing:
    reasons = tuple(sentence for reason in REASONS for sentence in reason(account))
    required, shard = account.header.get("require", ()), account.header.get("shard", "")
    lacking = tuple(unmet(required, account.cells, shard, library_of(account.header))) if required else ()
    return Standing("violated" if lacking else _verdict(account, partial=bool(reasons)), reasons, lacking)


def library_of(header: Line) -> Library:
    """The mechanisms of a run; the shipped ones where its folders are gone."""
    try:
        return Specs(tuple(header.get("specs", ()))).library()
    except UsageError:
        return library()


def _verdict(account: Account, *, partial: bool) -> Stands:
    cells, strict = account.cells, account.header.get("fail_on") == "should"
    if any(violates(c, strict=strict) for c in cells):
        return "violated"
    if partial:
        return "partial"
    if any(c["verdict"] == "waived" and c["level"] == "must" for c in cells):
        return "waived"
    return "conformant" if any(c["verdict"] == "pass" for c in account.laws) else "not_tested"


def unfinished(lines: Sequence[Line]) -> Iterator[Line]:
    """Subjects not tested completely, or not as required, except those on which attnspec itself failed."""
    told = {line["subject"] for line in lines if line.get("verdict") == "internal"}
    for line in lines:
        if line["kind"] == "subject" and line["subject"] not in told:
            yield from [line] if line["verdict"] == "partial" or line["unmet"] else []


def lacking(line: Line) -> tuple[str, str]:
    """What keeps such a subject from being whole, in a word and in full."""
    kind, head = ("required", "as required") if line["unmet"] else ("partial", "completely")
    told = [f"{kind.upper()}: {line['subject']} was not tested {head}", *line["unmet"], *line["reasons"]]
    return kind, "\n".join(map(safe, told))


def exit_of(lines: Iterable[Line]) -> Exit:
    """What a run ends with that was not interrupted, from its cells and the verdicts on its subjects."""
    lines = list(lines)
    verdicts = {standing_of(line, lines[0]) for line in lines if line["kind"] == "subject"}
    if altered(lines) or any(line["kind"] == "cell" and line["verdict"] == "internal" for line in lines):
        return Exit.INTERNAL
    if "violated" in verdicts:
        return Exit.VIOLATED
    green = bool(verdicts & {"conformant", "waived"}) and "partial" not in verdicts
    return Exit.CONFORMANT if green else Exit.NOTHING_TESTED


def standing_of(line: Line, header: Line) -> str:
    """The verdict on a subject as far as the end of a run goes; one that is excused may still be partial."""
    if not excused(line, header):
        return line["verdict"]
    return "partial" if line["reasons"] else "conformant"


def _key(line: Line, law: str) -> Key:
    return line["subject"], line["mechanism"], line["dtype"], law


def _count(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _named(keys: Sequence[Key]) -> str:
    """The first of them by mechanism, law and dtype."""
    named = ", ".join(f"{mechanism}.{law} in {dtype}" for _, mechanism, dtype, law in keys[:NAMED])
    return named + (f" and {len(keys) - NAMED} more" if len(keys) > NAMED else "")
