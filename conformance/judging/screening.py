"""The selection of rows to judge in a large case: the worst ones, those at tile edges, and others.

Rows are compared a stretch at a time, whatever rounding may do: all of them coarsely, by sums of channels where there
are very many, and those that differ most once more. How much is counted in the size of the row, for a late row of a
causal mask is small, and so is what may be wrong with it; and as it is, too. Nothing rests on this but the choice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.restriction import labels_of
from ..numerics.streams import pick
from ..subjects.large import LargeSubject
from .portions import Item, Portions, Rows
from .quick import Quick

WORST = 8
"""Rows that differ most, of which each is judged."""
AGAIN = 512
"""Rows that differ most coarsely, by either measure, which are compared once more."""
MANY = 4096
"""Stretches that are kept before rows that differ little are let go of."""
LEAST = 1e-3
"""The least size of a row, as a share of that of the stretch that it is in."""
FURTHER = 6
"""Rows at edges of tiles and elsewhere that are judged beside them."""
EDGES = (0, 1, 63, 64, 127, 128, 255, 256, -1, -2)
"""Rows that are near the edge of a tile, or of everything."""
ITEMS = 3
"""Items whose rows are judged."""


@dataclass(slots=True)
class Screened:
    """How much every row differs from the definition."""

    gaps: NDArray[np.float32]
    """The largest difference in every row of the first output, of the shape of its axes but the last; NaN where rows
    were not compared."""
    shares: NDArray[np.float32]
    """The same in units of the size of the row."""
    worst: list[Row]
    """The rows that differ most by either measure in turn, the worst first."""

    @property
    def seen(self) -> int:
        """How many rows were compared."""
        return int(np.count_nonzero(~np.isnan(self.gaps)))


class Row(NamedTuple):
    """How much a row of an item differs."""

    gap: float
    """The largest difference of an entry."""
    share: float
    """The same in units of the size of the row."""
    item: int
    row: int


def screened(
    portions: Portions, subject: LargeSubject, items: Sequence[Item], names: Sequence[str], seconds: float
) -> Screened:
    """The rows of all items against the definition; after so many seconds, the others are left out."""
    labels = portions.labels[:-1]
    gaps, shares = (np.full([portions.sizes[label] for label in labels], np.nan, np.float32) for _ in range(2))
    found, compared = Screened(gaps, shares, []), _Compared(Quick(portions, names), subject, gaps, shares)
    deadline, seed = time.monotonic() + seconds, portions.sample.case.seed
    order = sorted(range(len(items)), key=lambda at: (at not in (0, len(items) - 1), pick(1 << 30, seed, at)))
    seen = list[NDArray[np.float64]]()
    for number in order:
        item, start, step = items[number], 0, portions.step(items[number])
        while start < portions.rows and not (time.monotonic() > deadline and seen):
            rows = np.arange(start, min(start + step, portions.rows))
            seen.append(compared.rows(item, number, rows, coarse=True))
            start, step = start + len(rows), portions.step(item, compared.quick.looked)
            if len(seen) > MANY:
                seen = [_most(seen, AGAIN)]
    again = compared.quick.coarse
    worst = _most(seen, AGAIN if again else WORST)
    worst = _most(_again(compared, items, worst), WORST) if again else worst
    found.worst = [Row(float(gap), float(share), int(item), int(row)) for gap, share, item, row in worst]
    return found


def _most(parts: Sequence[NDArray[np.float64]], count: int) -> NDArray[np.float64]:
    """The rows that differ most by either measure, so many of each, in turn: each as the numbers of a `Row`."""
    rows = np.concatenate(parts)
    best = [np.argsort(-rows[:, at], kind="stable")[:count] for at in (1, 0)]
    turns = np.stack(best, axis=-1).ravel()
    return rows[turns[np.sort(np.unique(turns, return_index=True)[1])]]


def _again(compared: _Compared, items: Sequence[Item], rows: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Rows that were compared coarsely, compared once more."""
    found = list[NDArray[np.float64]]()
    for number in np.unique(rows[:, 2]).astype(int).tolist():
        own = np.sort(rows[rows[:, 2] == number, 3]).astype(int)
        step = compared.quick.portions.step(items[number])
        for start in range(0, len(own), step):
            found.append(compared.rows(items[number], number, own[start : start + step]))
    return found


@dataclass(slots=True)
class _Compared:
    """Rows of a subject against those of the definition."""

    quick: Quick
    subject: LargeSubject
    gaps: NDArray[np.float32]
    shares: NDArray[np.float32]

    def rows(self, item: Item, number: int, rows: Rows, *, coarse: bool = False) -> NDArray[np.float64]:
        """How much rows differ, infinitely where they are not numbers, each as the numbers of a `Row`."""
        portions, sums = self.quick.portions, self.quick.sums(item, rows) if coarse else None
        exact = self.quick.outputs(item, rows, coarse=coarse) if sums is None else sums[1]
        most = np.zeros((2, len(rows)))
        for at, name in enumerate(self.quick.names):
            y = portions.observed(self.subject, item, rows, name)
            if sums is not None and at == 0:
                y = sums[0].of(y)
            x = np.broadcast_to(np.asarray(exact[name]), y.shape)
            labels = labels_of(portions.mechanism, name)
            gap = _gap(y, x)
            own = gap, gap / _size(x, wide=labels[-1:] == portions.labels[-1:])
            most = np.maximum(most, [portions.by_row(each, name, len(rows)) for each in own])
            if set(portions.labels[:-1]) <= set(labels):
                for kept, each in zip((self.gaps, self.shares), own, strict=True):
                    _note(kept, portions, item, rows, name, each, anew=at == 0)
        return np.stack([*most, np.full(len(rows), float(number)), rows.astype(float)], axis=-1)


def _gap(y: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
    gap = np.abs(y - x)
    if np.isfinite(gap).all():
        return gap
    return np.where((y == x) | (np.isnan(y) & np.isnan(x)), 0.0, np.where(np.isnan(gap), np.inf, gap))


def _size(x: NDArray[Any], *, wide: bool) -> NDArray[Any]:
    """The size of each row: the root of the mean square of its entries, or of its only one if it is not `wide`."""
    entries = np.where(np.isfinite(x), x, 0)
    squares = np.mean(entries * entries, axis=-1, keepdims=True) if wide else entries * entries
    return np.sqrt(np.maximum(squares, max(LEAST**2 * float(np.mean(squares)), 1e-30)))


def _note(
    kept: NDArray[np.float32],
    portions: Portions,
    item: Item,
    rows: Rows,
    name: str,
    gap: NDArray[np.float64],
    *,
    anew: bool,
) -> None:
    """Note the largest difference of every row, `anew` or beside what another output has."""
    labels = labels_of(portions.mechanism, name)
    own = portions.labels[:-1]
    over = tuple(axis for axis, label in enumerate(labels) if label not in own)
    left = [label for label in labels if label in own]
    largest = gap.max(axis=over, initial=0.0).transpose([left.index(label) for label in own])
    places = dict(zip(labels, portions.places(item, rows, name), strict=True))
    at = np.ix_(*(places[label] for label in own))
    kept[at] = largest if anew else np.fmax(kept[at], largest)


def chosen(portions: Portions, found: Screened, count: int) -> dict[int, list[int]]:
    """The rows that are judged, by item, of so many items."""
    n, seed = portions.rows, portions.sample.case.seed
    kept: dict[int, set[int]] = {}
    for one in found.worst:
        if one.item in kept or len(kept) < ITEMS:
            kept.setdefault(one.item, set()).add(one.row)
    for turn in range(FURTHER):
        item = [*kept][turn % len(kept)] if len(kept) >= min(ITEMS, count) else pick(count, seed, "item", turn)
        row = EDGES[pick(len(EDGES), seed, "edge", turn)] if turn % 2 else pick(n, seed, "row", turn)
        if -n <= row < n:
            kept.setdefault(item, set()).add(row % n)
    return {item: sorted(rows) for item, rows in kept.items()}
