"""The durations of groups in earlier runs, and balanced parts of the work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from ..frameworks.framework import kind_of
from ..reporting.results import read

Key = tuple[str, str, str, str]
"""A subject, a mechanism, a dtype and a kind of device."""
UNKNOWN = 1.0
"""Seconds of a group where nothing at all is known."""


def durations(paths: Iterable[str]) -> dict[Key, float]:
    """The seconds that groups have taken, as results say; those of later files count."""
    found: dict[Key, float] = {}
    for path in paths:
        for line in read(Path(path)):
            if line["kind"] == "cell" and "run" in line:
                key = line["subject"], line["mechanism"], line["dtype"], kind_of(line["device"])
                found[key] = float(line["run"]["seconds"])
    return found


def expected(key: Key, known: Mapping[Key, float]) -> float:
    """The seconds that a group is likely to take: what it took, or half of those of its mechanism took, or of all."""
    if key in known:
        return known[key]
    alike = [seconds for (_, mechanism, _, _), seconds in known.items() if mechanism == key[1]]
    return median(alike or known.values() or [UNKNOWN])


def shared_out(seconds: Sequence[float], parts: int) -> list[list[int]]:
    """The places of what takes so long, in so many parts that end together: the longest goes first to the emptiest."""
    found: list[list[int]] = [[] for _ in range(parts)]
    total = [0.0] * parts
    for place in sorted(range(len(seconds)), key=lambda place: -seconds[place]):
        part = total.index(min(total))
        found[part].append(place)
        total[part] += seconds[place]
    return [sorted(places) for places in found]
