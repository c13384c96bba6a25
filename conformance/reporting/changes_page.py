"""The changes between two states, as text, as Markdown, and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..data.texts import safe
from .baseline import State
from .changes import KINDS, Change, mattering
from .typesetting import aligned

FORMAT = 1
"""The number of the format of the JSON, which is raised when a key goes or comes to mean something else."""
TITLES = {
    "new": "new failures",
    "untested": "no longer tested",
    "precision": "less precise",
    "slower": "slower calls",
    "conventions": "other conventions",
    "laws": "failures under newer laws",
    "mended": "mended",
    "tested": "newly tested",
}
FEW = 40
"""Lines of one kind on a page; the rest is counted."""
LONG = 120
"""Characters of what is said of a change."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Two states by name, what has changed, and which kinds of changes fail."""

    before: str
    after: str
    states: tuple[State, State]
    changes: Sequence[Change]
    fails: Collection[str]

    @property
    def failing(self) -> list[Change]:
        return mattering(self.changes, self.fails)


def page(found: Compared) -> Iterator[str]:
    """The page for a terminal; the sentence that counts comes last."""
    yield f"{found.before} -> {found.after}"
    yield from _otherwise(found)
    for kind in KINDS:
        rows = _together([change for change in found.changes if change.kind == kind])
        if rows:
            yield ""
            yield f"{TITLES[kind].upper()}   {KINDS[kind]}"
            yield from (f"  {line}" for line in aligned([_cells(change) for change in rows[:FEW]]))
            if len(rows) > FEW:
                yield f"  and {len(rows) - FEW} more"
    yield ""
    yield sentence(found)


def markdown(found: Compared) -> Iterator[str]:
    """The same for the summary of a job or a comment."""
    yield f"**{_escaped(sentence(found))}**"
    yield ""
    yield from map(_escaped, _otherwise(found))
    for kind in KINDS:
        rows = _together([change for change in found.changes if change.kind == kind])
        if rows:
            yield ""
            yield f"### {TITLES[kind].capitalize()}"
            yield ""
            yield "| subject | law | dtype | |"
            yield "|---|---|---|---|"
            yield from ("| " + " | ".join(map(_escaped, _cells(change))) + " |" for change in rows[:FEW])
            if len(rows) > FEW:
                yield ""
                yield f"and {len(rows) - FEW} more"


def as_json(found: Compared) -> dict[str, Any]:
    """Every change by itself, with both states in short."""
    sides = {
        name: {"file": file, "attnspec": state.attnspec, "profile": state.profile, "seed": state.seed}
        for name, file, state in zip(("before", "after"), (found.before, found.after), found.states, strict=True)
    }
    fails = {"fail_on": sorted(found.fails), "fails": bool(found.failing)}
    return {"format": FORMAT, **sides, **fails, "changes": [asdict(change) for change in found.changes]}


def sentence(found: Compared) -> str:
    """How many changes there are of each kind, and what that comes to."""
    counts = {kind: sum(change.kind == kind for change in found.changes) for kind in KINDS}
    told = ", ".join(f"{count} {TITLES[kind]}" for kind, count in counts.items() if count) or "nothing has changed"
    watched = f"fails on: {', '.join(kind for kind in KINDS if kind in found.fails) or 'nothing'}"
    return f"{'FAILS' if found.failing else 'PASSES'}   {told}   ({watched})"


def _otherwise(found: Compared) -> Iterator[str]:
    """What was tried otherwise, which explains changes by itself."""
    before, after = found.states
    for name in ("attnspec", "profile", "seed"):
        earlier, later = getattr(before, name), getattr(after, name)
        if earlier != later:
            yield f"{name} {earlier} before, {later} now"


def _together(changes: Sequence[Change]) -> list[Change]:
    """Changes that differ in their dtype alone as one."""
    found: dict[tuple[str, ...], Change] = {}
    for change in changes:
        key = (change.subject, change.mechanism, change.law, change.device)
        earlier = found.get(key)
        found[key] = change if earlier is None else replace(earlier, dtype=f"{earlier.dtype}, {change.dtype}")
    return list(found.values())


def _cells(change: Change) -> tuple[str, str, str, str]:
    law = f"{change.mechanism}.{change.law}" if change.law else change.mechanism
    at = f"{change.dtype} on {change.device}" if change.device not in ("", "cpu") else change.dtype
    says = safe(change.says.partition("\n")[0], LONG)
    return change.subject, law, at, f"{says} (known: {change.finding})" if change.finding else says


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
