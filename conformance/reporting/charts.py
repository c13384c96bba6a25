"""Charts: bars, and the distribution of cells over their errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LOWEST, HIGHEST = -4, 4
"""Powers of ten between which errors are spread out; those beyond stand at the ends."""
PER_DECADE = 4
"""Bars of a decade."""
TICKS = (-4, -2, 0, 2, 4)
FEWEST = 2
"""Cases that a cloud has at least."""
WIDTH, HEIGHT, GAP = 1000, 100, 2
"""Units of a drawing, which is stretched to the room that there is, and of what parts its columns."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a whole, beside its name."""

    name: str
    share: int
    """Of `WIDTH`."""
    says: str
    kind: str = ""
    """What it is drawn as: `good`, `bad`, or nothing in particular."""


@dataclass(frozen=True, slots=True)
class Column:
    """The cells with errors of about one size."""

    x: int
    width: int
    height: int
    beyond: bool
    """Whether these errors are larger than their bounds."""
    says: str


@dataclass(frozen=True, slots=True)
class Spread:
    """How the errors of one dtype are spread, on a scale of powers of ten."""

    name: str
    columns: tuple[Column, ...]
    says: str

    @property
    def outlines(self) -> tuple[tuple[bool, str], ...]:
        """The columns within bounds and those beyond as one path each."""
        return tuple(
            (beyond, "".join(f"M{c.x} {HEIGHT}v-{c.height}h{c.width}v{c.height}z" for c in own))
            for beyond in (False, True)
            if (own := [c for c in self.columns if c.beyond is beyond])
        )


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the scale of errors."""

    text: str
    x: int


@dataclass(frozen=True, slots=True)
class Dot:
    """A case of a cloud; `y` grows downwards, as in a drawing."""

    x: int
    y: int
    says: str


@dataclass(frozen=True, slots=True)
class Cloud:
    """Errors against something else."""

    name: str
    dots: tuple[Dot, ...]
    ticks: tuple[str, ...]
    """What stands at the left, in the middle and at the right."""
    says: str


def bars(amounts: Mapping[str, float], says: Mapping[str, str], most: int = 30) -> tuple[Bar, ...]:
    """Amounts as bars, the largest first; of many, the first ones."""
    whole = max(amounts.values(), default=0) or 1
    ordered = sorted(amounts, key=lambda name: -amounts[name])[:most]
    return tuple(Bar(name, round(WIDTH * amounts[name] / whole), says[name]) for name in ordered)


def spread(name: str, errors: Iterable[float | None]) -> Spread | None:
    """How errors in units of their bounds are spread; None for no bound at all. Without any error there is nothing."""
    told = [math.inf if x is None else x for x in errors]
    found = [x for x in told if x > 0]
    if not found:
        return None
    counts: dict[int, int] = {}
    for x in found:
        counts[_place(x)] = counts.get(_place(x), 0) + 1
    steps, most = (HIGHEST - LOWEST) * PER_DECADE, max(counts.values())
    edges = [WIDTH * at // steps for at in range(steps + 1)]
    columns = tuple(
        Column(
            edges[at],
            edges[at + 1] - edges[at] - GAP,
            max(4, round(HEIGHT * n / most)),
            at >= -LOWEST * PER_DECADE,
            _column(at, n),
        )
        for at, n in sorted(counts.items())
    )
    within = sum(x <= 1 for x in found)
    return Spread(name, columns, f"{within} of {len(found)} within their bounds")


def room(name: str, counts: Sequence[int]) -> Spread | None:
    """How the errors of entries are spread that are within their bounds; None where none has any.

    `counts` are those of a record: entries without any error, and in each quarter of a power of ten up to 1.
    """
    own, most = counts[1:], max(counts[1:], default=0)
    if not most:
        return None
    edges = [WIDTH * at // len(own) for at in range(len(own) + 1)]
    columns = tuple(
        Column(
            edges[at], edges[at + 1] - edges[at] - GAP, max(2, round(HEIGHT * n / most)), False, _column(at, n, "entry")
        )
        for at, n in enumerate(own)
        if n
    )
    half = sum(own[-1:])
    near = f"{100 * half / sum(counts):.3g}% of them beyond 0.56 × the bound"
    return Spread(name, columns, f"{sum(counts):,} entries, {near}")


def room_ticks() -> tuple[str, ...]:
    """The marks of the scale of errors within bounds."""
    return (*(f"{10.0**p:g}" for p in range(LOWEST, 0)), "the bound")


def spark(counts: Sequence[int]) -> str:
    """The same as the path of a small drawing, 16 units wide and 8 high."""
    own, most = counts[1:], max(counts[1:], default=0)
    if not most:
        return ""
    heights = [math.ceil(8 * n / most) for n in own]
    return "M0 8" + "".join(f"V{8 - height}h1" for height in heights) + "V8z"


def cloud(name: str, points: Sequence[tuple[float, float, str]], ticks: tuple[str, ...]) -> Cloud | None:
    """Errors against something from 0 to 1, each with what it says; None of fewer than two."""
    if len(points) < FEWEST:
        return None
    dots = tuple(Dot(round(20 + 960 * x), round(94 - 88 * _height(units)), says) for x, units, says in points)
    return Cloud(name, dots, ticks, f"{len(dots)} cases, at most {number(max(p[1] for p in points))} × the bound")


def _height(units: float) -> float:
    """Where an error within its bound stands on the scale of powers of ten."""
    return min(1.0, max(0.0, 1 - math.log10(units) / LOWEST)) if units > 0 else 0.0


def ticks() -> tuple[Tick, ...]:
    """The marks of the scale of errors."""
    named = {0: "the bound", LOWEST: f"{10.0**LOWEST:g} or less", HIGHEST: f"{10**HIGHEST:,} or more"}
    span = HIGHEST - LOWEST
    return tuple(Tick(named.get(p, f"{10.0**p:g}"), WIDTH * (p - LOWEST) // span) for p in TICKS)


def _place(x: float) -> int:
    """The number of the column that an error stands in; one at its bound stands before it."""
    steps = (HIGHEST - LOWEST) * PER_DECADE
    at = steps if math.isinf(x) else math.ceil((math.log10(x) - LOWEST) * PER_DECADE) - 1
    return min(max(at, 0), steps - 1)


def _column(at: int, count: int, what: str = "cell") -> str:
    low, high = (10 ** (LOWEST + (at + more) / PER_DECADE) for more in (0, 1))
    many = "entries" if what == "entry" else f"{what}s"
    cells = f"1 {what}" if count == 1 else f"{count:,} {many}"
    if at == 0:
        return f"{cells} at {high:.2g} × the bound or less"
    last = at == (HIGHEST - LOWEST) * PER_DECADE - 1
    return f"{cells} beyond {low:.2g} × the bound" if last else f"{cells} at {low:.2g} to {high:.2g} × the bound"


def shares(rows: Sequence[tuple[str, int, int, str]]) -> tuple[Bar, ...]:
    """Parts of wholes as bars: of each its name, how many, of how many, and what is counted."""
    return tuple(
        Bar(name, WIDTH * part // whole, f"{part} of {whole} {what}", "good" if part == whole else "bad")
        for name, part, whole, what in rows
        if whole
    )


def number(x: Any) -> str:
    """An error in units of its bound, in few characters."""
    if x is None or math.isinf(x):
        return "∞"
    return "0" if x == 0 else f"{x:.2f}" if 0.01 <= x < 10 else f"{x:.3g}" if 10 <= x < 1000 else f"{x:.0e}"
