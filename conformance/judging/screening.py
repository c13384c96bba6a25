"""Which rows of a large case are judged: those that differ most from the definition, at edges of tiles, and others.

Rows are compared a stretch at a time, whatever rounding may do. Nothing rests on this but the choice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.restriction import labels_of
from ..numerics.streams import pick
from ..subjects.large import LargeSubject
from .portions import Item, Portions, Rows

WORST = 8
"""Rows that differ most, of which each is judged."""
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
    worst: list[tuple[float, int, int]]
    """The rows that differ most, the worst first: by how much, of which item, and which row."""

    @property
    def seen(self) -> int:
        """How many rows were compared."""
        return int(np.count_nonzero(~np.isnan(self.gaps)))


def screened(
    portions: Portions, subject: LargeSubject, items: Sequence[Item], names: Sequence[str], seconds: float
) -> Screened:
    """The rows of all items against the definition; after so many seconds, the others are left out."""
    labels = portions.labels[:-1]
    gaps = np.full([portions.sizes[label] for label in labels], np.nan, np.float32)
    found = Screened(gaps, [])
    deadline, seed = time.monotonic() + seconds, portions.sample.case.seed
    order = sorted(range(len(items)), key=lambda at: (at not in (0, len(items) - 1), pick(1 << 30, seed, at)))
    for number in order:
        item = items[number]
        step = portions.step(item)
        for start in range(0, portions.rows, step):
            if time.monotonic() > deadline and found.worst:
                return found
            rows = np.arange(start, min(start + step, portions.rows))
            each = _compared(portions, subject, item, rows, names, gaps)
            own = [(float(gap), number, int(row)) for row, gap in zip(rows, each, strict=True)]
            found.worst = sorted((*found.worst, *own), key=lambda one: -one[0])[:WORST]
    return found


def _compared(
    portions: Portions,
    subject: LargeSubject,
    item: Item,
    rows: Rows,
    names: Sequence[str],
    gaps: NDArray[np.float32],
) -> NDArray[np.float64]:
    """How much each row differs from the definition, infinitely where it is no number; noted down in `gaps` as well."""
    exact = portions.outputs(portions.frame(item, rows, None), names)
    worst = np.zeros(len(rows))
    for name in names:
        y, x = portions.observed(subject, item, rows, name), np.asarray(exact[name], float)
        gap = np.abs(y - np.broadcast_to(x, y.shape))
        gap = np.where((y == x) | (np.isnan(y) & np.isnan(x)), 0.0, np.where(np.isnan(gap), np.inf, gap))
        worst = np.maximum(worst, portions.by_row(gap, name, len(rows)))
        labels = labels_of(portions.mechanism, name)
        if set(portions.labels[:-1]) <= set(labels):
            _note(gaps, portions, item, rows, name, gap)
    return worst


def _note(
    gaps: NDArray[np.float32], portions: Portions, item: Item, rows: Rows, name: str, gap: NDArray[np.float64]
) -> None:
    labels = labels_of(portions.mechanism, name)
    own = portions.labels[:-1]
    over = tuple(axis for axis, label in enumerate(labels) if label not in own)
    left = [label for label in labels if label in own]
    largest = gap.max(axis=over, initial=0.0).transpose([left.index(label) for label in own])
    places = dict(zip(labels, portions.places(item, rows, name), strict=True))
    at = np.ix_(*(places[label] for label in own))
    gaps[at] = np.fmax(gaps[at], largest)


def chosen(portions: Portions, found: Screened, count: int) -> dict[int, list[int]]:
    """The rows that are judged, by item, of so many items."""
    n, seed = portions.rows, portions.sample.case.seed
    kept: dict[int, set[int]] = {}
    for _, item, row in found.worst:
        if item in kept or len(kept) < ITEMS:
            kept.setdefault(item, set()).add(row)
    for turn in range(FURTHER):
        item = [*kept][turn % len(kept)] if len(kept) >= min(ITEMS, count) else pick(count, seed, "item", turn)
        row = EDGES[pick(len(EDGES), seed, "edge", turn)] if turn % 2 else pick(n, seed, "row", turn)
        if -n <= row < n:
            kept.setdefault(item, set()).add(row % n)
    return {item: sorted(rows) for item, rows in kept.items()}
