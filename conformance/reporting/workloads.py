"""How much of a workload was judged, by adapter, and why the rest was not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Line = Mapping[str, Any]
JUDGED = ("pass", "fail", "error", "waived")
"""The verdicts on calls that were judged."""
NAMED = 5
"""Kinds of calls that are named."""
WORKED = "workload."
"""What the names of verdicts on calls of a workload begin with."""


@dataclass(frozen=True, slots=True)
class Share:
    """What came of a workload with one adapter, in calls as the program has made them."""

    subject: str
    path: str
    calls: int
    judged: int
    wrong: int
    rest: tuple[tuple[int, str], ...]
    """What was not judged: how many calls, and which and why; the most frequent first."""

    @property
    def told(self) -> str:
        wrong = f", of which {self.wrong} are wrong" if self.wrong else ""
        return f"{self.judged} of {self.calls} calls of {self.path} were judged ({self.part}){wrong}"

    @property
    def part(self) -> str:
        """The share that was judged, rounded down, so that all is all."""
        return f"{int(1000 * self.judged / self.calls) / 10:g}%" if self.calls else "none"


def shares(headers: Iterable[Line], cells: Sequence[Line]) -> Iterator[Share]:
    """The shares of the workloads that runs name, of each adapter that has cells of theirs."""
    found = {each["workload"]["path"]: each["workload"] for each in headers if "workload" in each}
    for workload in found.values():
        for subject in dict.fromkeys(cell["subject"] for cell in cells if cell["law"].startswith(WORKED)):
            yield _share(subject, workload, [cell for cell in cells if cell["subject"] == subject])


def _share(subject: str, workload: Line, cells: Sequence[Line]) -> Share:
    known = {(cell["operator"], cell["law"].removeprefix(WORKED)): cell for cell in cells}
    rest, judged, wrong = list[tuple[int, str]](), 0, 0
    for use in workload["uses"]:
        cell = known.get((use["operator"], use["id"]))
        if cell is not None and cell["verdict"] in JUDGED:
            judged += use["count"]
            wrong += use["count"] * (cell["verdict"] in ("fail", "error"))
        else:
            why = "not declared for the adapter" if cell is None else cell["says"] or cell["verdict"].replace("_", " ")
            rest.append((use["count"], f"{use['operator']} in {use['dtype']} ({use['says']}): {why}"))
    rest += [(one["count"], f"{one['interface']}: {one['says']}") for one in workload["left"]]
    calls = sum(one["count"] for one in (*workload["uses"], *workload["left"]))
    return Share(subject, workload["path"], calls, judged, wrong, tuple(sorted(rest, key=lambda one: -one[0])))


def told(headers: Iterable[Line], cells: Sequence[Line]) -> Iterator[str]:
    """The shares in lines, each with the most frequent calls that were not judged."""
    for share in shares(headers, cells):
        yield f"{share.subject}: {share.told}"
        yield from (f"  not judged: {count} x {says}" for count, says in share.rest[:NAMED])
        if len(share.rest) > NAMED:
            left = sum(count for count, _ in share.rest[NAMED:])
            yield f"  not judged: {left} calls of {len(share.rest) - NAMED} more kinds"
