"""Waivers: failures that are excused until a date, for a reason, as long as their case still fails.

# attnspec-waivers.yaml
version: 1
max_active: 10
waivers:
  - law: sliding_window.reach
    target: my_kernel
    where: {dtype: bfloat16}
    case: cases/q7Kd2A.json
    signature: mistake:sliding_window.one_more
    ceiling: 2.0
    also: [sliding_window.definition]
    reason: the window counts the query twice; the new tile loop will fix it
    issue: https://github.com/org/repo/issues/123
    owner: "@name"
    added: 2026-11-21
    expires: 2027-02-28

A waiver excuses one law of one target, and the laws that the same fault breaks (`also`); only as far as it behaves like
`signature`, and errs by no more than `ceiling` bounds, where these are given.
Its case is run every time: if it holds, the waiver is stale, and the run fails until it is removed, as it does from the
day after `expires` on.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ..data.files import read_text
from ..data.texts import safe
from ..diagnosis.likeness import Likeness
from ..diagnosis.naming import diagnose
from ..diagnosis.stored import MOST, find, is_file, runnable
from ..errors import Place, SpecError, SpecErrors, UsageError, did_you_mean
from ..judging.bench import Bench
from ..judging.cells import Cell, Result, every_name, has_name
from ..mechanisms.documents import Text, read
from ..mechanisms.library import Library
from ..mechanisms.loader import library as shipped
from ..mechanisms.schema import schema_errors
from ..numerics.budget import FILE_BYTES
from .opening import again, sample_of

VERSION = "1"
LONGEST = 180
"""Days that a waiver may last."""
LONGEST_TEXT = 1000
"""Characters of a reason that are written."""
PLAIN = re.compile(r"[A-Za-z0-9_]([\w.:-]*\w)?", re.ASCII)
"""A text that YAML takes as it is."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """One entry of a file; the module's text says what its parts mean."""

    law: str
    target: str
    case: Path
    reason: str
    issue: str
    owner: str
    added: datetime.date
    expires: datetime.date
    place: Place
    last: int
    """The last line of the entry."""
    dtype: str = ""
    device: str = ""
    signature: str = ""
    ceiling: float | None = None
    also: tuple[str, ...] = ()

    @property
    def lines(self) -> str:
        return f"lines {self.place.line}-{self.last}"

    def expired(self, day: datetime.date) -> bool:
        return day > self.expires

    def until(self, day: datetime.date) -> str:
        """How long it lasts, seen from a day on which it does."""
        left = (self.expires - day).days
        return f"until {self.expires}, {'1 day' if left == 1 else f'{left} days'} left"

    def about(self, cell: Cell) -> bool:
        """Whether it is about what a cell is about, be it covered or not."""
        return (
            cell.subject == self.target
            and cell.address in (self.law, *self.also)
            and self.dtype in ("", cell.dtype)
            and self.device in ("", cell.device, cell.device.partition(":")[0])
        )


# Reading


def waivers_of(path: Path, library: Library | None = None) -> tuple[Waiver, ...]:
    """The waivers of a file, of mechanisms that are known or shipped.

    All that is wrong with it is said at once, as `SpecErrors`.
    """
    document = read(path)
    faults = list(schema_errors(document, Path(__file__).with_name("waivers.json")))
    if faults:
        raise SpecErrors(faults)
    parts = cast(Mapping[str, Any], document)  # texts are found by what they say
    faults = [fault for entry in parts["waivers"] for fault in _faults(entry, path, library or shipped())]
    count, limit = len(parts["waivers"]), parts.get("max_active")
    if limit is not None and count > int(limit):
        faults.append(SpecError(f"there are {count} waivers, and max_active is {limit}", limit.place))
    if faults:
        raise SpecErrors(faults)
    return tuple(_waiver(entry, path) for entry in parts["waivers"])


def _faults(entry: Mapping[str, Any], path: Path, library: Library) -> Iterator[SpecError]:
    """What is wrong with an entry beside its form."""
    added, expires = (_day(entry[name]) for name in ("added", "expires"))
    for name, day in (("added", added), ("expires", expires)):
        if day is None:
            yield SpecError(f"{str(entry[name])!r} is not a day such as 2027-02-28", entry[name].place)
    if added and expires and expires - added > datetime.timedelta(LONGEST):
        yield SpecError(f"a waiver lasts {LONGEST} days at most", entry["expires"].place)
    for law in (entry["law"], *entry.get("also", ())):
        yield from _unknown(law, library)
    if not is_file(path.parent / entry["case"]):
        yield SpecError(f"no such case: {path.parent / entry['case']}", entry["case"].place)


def _waiver(entry: Mapping[Any, Any], path: Path) -> Waiver:
    parts: dict[str, Any] = {str(key): str(x) for key, x in {**entry, **entry.get("where", {})}.items()}
    parts.pop("where", None)
    parts |= {
        "case": path.parent / parts["case"],
        "added": _day(parts["added"]),
        "expires": _day(parts["expires"]),
        "ceiling": float(parts["ceiling"]) if "ceiling" in parts else None,
        "also": tuple(map(str, entry.get("also", ()))),
        "place": next(iter(entry)).place,
        "last": max(text.place.line for text in _texts(entry)),
    }
    return Waiver(**parts)


def _day(text: str) -> datetime.date | None:
    with suppress(ValueError):
        return datetime.date.fromisoformat(text)
    return None


def _texts(x: Any) -> Iterator[Text]:
    if isinstance(x, Text):
        yield x
    for part in [*x, *x.values()] if isinstance(x, dict) else x if isinstance(x, list) else ():
        yield from _texts(part)


def _unknown(law: Text, library: Library) -> Iterator[SpecError]:
    mechanism, _, name = law.partition(".")
    known = library.get(mechanism)
    if known is None:
        yield SpecError(f"unknown mechanism {mechanism!r}{did_you_mean(mechanism, library)}", law.place)
    elif not has_name(known, name):
        yield SpecError(f"unknown law {str(law)!r}{did_you_mean(name, every_name(known))}", law.place)


# Judging


def today() -> datetime.date:
    return datetime.date.today()


def excused(result: Result, waivers: Sequence[Waiver], day: datetime.date, seed: int) -> Result:
    """A result with its cells waived, or found fault with for the sake of their waivers."""
    if not waivers or result.bench is None:
        return result
    states: dict[int, str] = {}
    bench = result.bench

    def judged(cell: Cell) -> Cell:
        waiver = next((w for w in waivers if w.about(cell)), None)
        if waiver is None:
            return cell
        line = waiver.place.line
        if line not in states:
            states[line] = _state(waiver, bench, day)
        return _excused(cell, waiver, states[line], bench, day, seed)

    return replace(result, cells=tuple(judged(cell) for cell in result.cells))


def _state(waiver: Waiver, bench: Bench, day: datetime.date) -> str:
    """What is wrong with a waiver as such; nothing if its case still fails and its day has not passed."""
    if waiver.expired(day):
        return f"expired on {waiver.expires}"
    witness = find(str(waiver.case), waiver.case.parent)
    own = replace(bench, words=witness["words"])
    if f"{witness['mechanism']}.{witness['law']}" != waiver.law:
        raise UsageError(f"{waiver.place}: {waiver.case} is a case of {witness['mechanism']}.{witness['law']}")
    with runnable(str(waiver.case)):
        sample = sample_of(witness, bench.mechanism, bench.subject)
        failure, _, _ = again(own, sample, waiver.law.partition(".")[2], stress=witness.get("stress", 0))
    return "" if failure is not None else "is stale: its case passes now"


def _excused(cell: Cell, waiver: Waiver, state: str, bench: Bench, day: datetime.date, seed: int) -> Cell:
    if not cell.bad and cell.address != waiver.law:
        return cell
    if state:
        verdict, fault = (cell.verdict if cell.bad else "fail"), f"{state}; remove {waiver.lines}"
    else:
        short = _uncovered(cell, waiver, bench, seed) if cell.bad else ""
        verdict, fault = (cell.verdict, f"does not cover it: {short}") if short else ("waived", "")
    if verdict == "waived":
        return replace(cell, verdict=verdict, says=f"{waiver.until(day)}: {waiver.reason} ({waiver.issue})")
    says = "; ".join(text for text in (cell.says, f"the waiver at {waiver.place} {fault}") if text)
    return replace(cell, verdict=verdict, says=says)


def _uncovered(cell: Cell, waiver: Waiver, bench: Bench, seed: int) -> str:
    """Why a failure is beyond a waiver; nothing if it is not."""
    if waiver.ceiling is not None and cell.worst > waiver.ceiling and cell.address == waiver.law:
        return f"the error is {cell.worst:.3g} x the bound, over its ceiling of {waiver.ceiling:g}"
    if waiver.signature and cell.failure is not None:
        likeness = diagnose(bench, cell.failure, seed)
        name = likeness.name if isinstance(likeness, Likeness) else ""
        if name != waiver.signature:
            return f"it behaves like {name or 'no known mistake'}, not like {waiver.signature}"
    return ""


# Writing


def waive(
    path: Path, witness: Mapping[str, Any], kept: Path, answers: Mapping[str, str], library: Library | None = None
) -> str:
    """Add a waiver for a kept witness to a file, with a copy of the case beside it; the lines that were added.

    `answers` are reason, issue, owner, expires and, if wanted, ceiling.
    """
    case = path.parent / "cases" / f"{witness['key']}.json"
    _check(path, case, answers, library)
    also = [_written(f"{witness['mechanism']}.{law}") for law in witness["broken"]]
    entry = {
        "law": f"{witness['mechanism']}.{witness['law']}",
        "target": _written(witness["subject"]),
        "where": f"{{dtype: {witness['dtype']}, device: {witness['device']}}}",
        "case": f"cases/{witness['key']}.json",
        **({"signature": _written(witness["likeness"]["name"])} if witness["likeness"] else {}),
        **({"ceiling": _written(answers["ceiling"])} if answers.get("ceiling") else {}),
        **({"also": f"[{', '.join(also)}]"} if also else {}),
        **{key: _quoted(answers[key]) for key in ("reason", "issue", "owner")},
        "added": today().isoformat(),
        "expires": answers["expires"],
    }
    head = "" if os.path.lexists(path) else f"version: {VERSION}\nwaivers:\n"
    added = "".join(f"  {'- ' if key == 'law' else '  '}{key}: {text}\n" for key, text in entry.items())
    before = read_text(path, FILE_BYTES) if os.path.lexists(path) else None
    try:
        case.parent.mkdir(parents=True, exist_ok=True)
        if not case.exists() or not case.samefile(kept):
            case.write_text(read_text(kept, MOST), "utf-8")
        path.write_text((before or head) + added, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the waiver to {safe(str(path))}: {error.strerror or error}") from None
    try:
        waivers_of(path, library)
    except SpecErrors:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, "utf-8")
        raise
    return head + added


def _check(path: Path, case: Path, answers: Mapping[str, str], library: Library | None) -> None:
    """Raise a `UsageError` for what is not an answer: a day that has passed, or one more waiver of the same case."""
    day = _day(answers["expires"])
    if day is None:
        raise UsageError(f"--expires {answers['expires']!r} is not a day such as 2027-02-28")
    if day < today():
        raise UsageError(f"--expires {day} has passed, and today is {today()}; give a date in the future")
    same = (
        [waiver for waiver in waivers_of(path, library) if waiver.case.resolve() == case.resolve()]
        if os.path.lexists(path)
        else []
    )
    if same:
        raise UsageError(
            f"the case {case.stem} is already waived until {same[0].expires}: {path}, {same[0].lines}; "
            "edit or remove these lines"
        )


def _written(text: str) -> str:
    """A text of YAML, in quotes where it is not a plain word."""
    return text if PLAIN.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    return '"' + safe(" ".join(text.split()), LONGEST_TEXT).replace("\\", "\\\\").replace('"', '\\"') + '"'
