"""The changes from one state of subjects to another, and which of them matter.

A law that failed before is no new failure, whatever it says now. A failure under a law that the state before does not
have, or under a specification that has changed since, is told apart: it came with another version of attnspec.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..numerics.grades import LADDER
from .baseline import Group, Key, State, Times, Verdict

FAILED = ("fail", "error", "internal")
KINDS = {
    "new": "fails, and did not before",
    "untested": "was tested before, and is not tested now",
    "precision": "is less precise",
    "slower": "takes longer by more than the spread of its calls",
    "conventions": "follows another word of a convention",
    "laws": "fails under a law, or a specification, that is newer than the state before",
    "mended": "failed before, and passes now",
    "tested": "is tested, and was not before",
}
"""What may have changed, the worst first."""
WORSE = ("new", "untested", "precision", "slower", "conventions", "laws")
"""The changes that a team may want to fail a build."""
COARSER = 2.0
"""How many times larger the worst error of the outputs on the same cases is to be before it is told."""
LEAST = 0.25
"""Units of the bound below which an error is not told, however much larger it has become."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change; `law` is empty where it is of a whole mechanism, `mechanism` where it is of a whole subject."""

    kind: str
    subject: str
    mechanism: str = ""
    law: str = ""
    dtype: str = ""
    device: str = ""
    says: str = ""
    finding: str = ""


def changes(before: State, after: State) -> list[Change]:
    """All changes, in the order of `KINDS`."""
    same = (before.profile, before.seed) == (after.profile, after.seed)
    found = [*_gone(before, after), *_gone(after, before, "tested")]
    for key in before.groups.keys() & after.groups.keys():
        found += _of_group(key, before.groups[key], after.groups[key], same)
    found += (change for key in after.groups.keys() - before.groups.keys() for change in _added(key, after, before))
    order = list(KINDS)
    return sorted(found, key=lambda c: (order.index(c.kind), c.subject, c.mechanism, c.law, c.dtype, c.device))


def mattering(found: Iterable[Change], kinds: Collection[str]) -> list[Change]:
    """The changes that fail a build."""
    return [change for change in found if change.kind in kinds]


def _gone(here: State, there: State, kind: str = "untested") -> Iterator[Change]:
    """The subjects, and mechanisms of subjects, of one state that the other does not have."""
    subjects = {key[0] for key in there.groups}
    for subject in {key[0] for key in here.groups} - subjects:
        yield Change(kind, subject, says="the whole subject")
    for key in here.groups.keys() - there.groups.keys():
        if key[0] in subjects and here.groups[key].laws:
            yield _change(kind, key, says=f"all {len(here.groups[key].laws)} laws")


def _added(key: Key, after: State, before: State) -> Iterator[Change]:
    """The failures of a group that was not there: new ones, for nobody has agreed to them."""
    newer = key[0] in {subject for subject, *_ in before.groups} and not any(key[1] == k[1] for k in before.groups)
    for law, found in after.groups[key].laws.items():
        if found.verdict in FAILED:
            yield _change("laws" if newer else "new", key, law, found.says, found.finding)


def _of_group(key: Key, before: Group, after: Group, same: bool) -> Iterator[Change]:
    same = same and before.digest == after.digest
    for law in before.laws.keys() - after.laws.keys():
        yield _change("untested", key, law)
    for law, found in after.laws.items():
        earlier = before.laws.get(law)
        if found.verdict in FAILED:
            if earlier is None or earlier.verdict not in FAILED:
                kind = "new" if earlier is not None and before.digest == after.digest else "laws"
                yield _change(kind, key, law, found.says, found.finding)
        elif earlier is not None and earlier.verdict in FAILED:
            yield _change("mended", key, law)
        elif earlier is None:
            yield _change("tested", key, law)
        elif same and law == "definition" and _coarser(earlier, found):
            yield _change("precision", key, law, f"{found.worst:.2g} x bound, {earlier.worst:.2g} before")
    if _rank(key, after.grade) > _rank(key, before.grade) >= 0:
        yield _change("precision", key, says=f"needs {after.grade}, {before.grade} before")
    if same and before.times and after.times and after.times.low > before.times.high:
        yield _change("slower", key, says=f"{_told(after.times)}, {_told(before.times)} before")
    yield from _reworded(key, before.conventions, after.conventions)


def _coarser(before: Verdict, after: Verdict) -> bool:
    """Whether errors on the same cases are larger by more than another order of operations explains."""
    if before.worst is None or after.worst is None:
        return False
    return after.worst > max(COARSER * before.worst, LEAST)


def _rank(key: Key, grade: str) -> int:
    names = [each.name for each in LADDER.get(key[2], ())]
    return names.index(grade) if grade in names else -1


def _reworded(key: Key, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield _change("conventions", key, says=f"{name} = {after[name]}, {before[name]} before")


def _told(times: Times) -> str:
    """The times of calls, of which the middle half is in brackets."""
    unit, factor = ("s", 1.0) if times.median >= 1 else ("ms", 1e3)
    low, median, high = (f"{factor * x:.3g}" for x in (times.low, times.median, times.high))
    return f"{median} {unit} a call ({low} to {high})"


def _change(kind: str, key: Key, law: str = "", says: str = "", finding: str = "") -> Change:
    subject, mechanism, dtype, device = key
    return Change(kind, subject, mechanism, law, dtype, device, says, finding)
