"""A case of the sizes of production, judged as strictly as a small one, without the memory of its scores.

The subject is called once, and keeps what it gives. Rows of its outputs are compared with the definition, without
bounds, a stretch at a time: this chooses the rows that differ most, beside those at the edges of tiles and some others.
The rows that were chosen are judged exactly, with all bounds, and the verdict rests on them alone.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.large import LargeSample
from ..errors import SpecError
from ..execution.calling import Fault
from ..execution.processes import LostError
from ..language.labels import ALONG
from ..language.restricting import UNLIKE
from ..mechanisms.definition import Frame
from ..mechanisms.restriction import Restriction, labels_of, output_shape, restrictable, restricted
from ..numerics import budget
from ..numerics.drawn import Drawn
from ..numerics.formats import FORMATS, half_unit, rounded
from ..numerics.grades import FP64, Grade, result_format
from ..numerics.numbers import K, Number, finite, recording
from ..numerics.streams import pick
from ..subjects.large import LargeSubject, large_subject
from .bench import Bench
from .beyond import reads_beyond
from .settling import Declined, Settled, claimed

STRETCH = 2_000_000
"""Entries of scores that are computed at a time."""
COPIES = 1_000_000
"""Entries of copies that are made at a time."""
WORST = 8
"""Rows that differ most, of which each is judged."""
FURTHER = 6
"""Rows at edges of tiles and elsewhere that are judged beside them."""
EDGES = (0, 1, 63, 64, 127, 128, 255, 256, -1, -2)
"""Rows that are near the edge of a tile, or of everything."""
ITEMS = 3
"""Items whose rows are judged."""


class Unroomy(Exception):  # noqa: N818 - an answer
    """A case needs more memory than there may be."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a case."""

    excess: float = 0.0
    """The largest error in units of the bound."""
    says: str = ""
    fault: Fault | None = None
    rows: int = 0
    seen: int = 0
    """Rows that were compared with the definition, of all `rows`."""
    judged: int = 0
    """Rows that were judged."""
    beyond: str = ""
    """What was read or written beyond an array."""

    @property
    def refuted(self) -> bool:
        return self.excess > 1


@dataclass(order=True, slots=True)
class _Row:
    """One row of an item, and how much it differs."""

    gap: float
    item: int = field(compare=False)
    row: int = field(compare=False)


@dataclass(slots=True)
class _Item:
    """What is evaluated together: positions of all restricted axes but the one of rows."""

    positions: dict[str, NDArray[np.int64]]
    values: dict[str, Any] = field(default_factory=dict)
    """The inputs at those positions, once they are made."""


class Large:
    """A large case against a subject."""

    def __init__(self, bench: Bench, sample: LargeSample, *, memory: int, seconds: float) -> None:
        """`memory` bounds what either process takes, in bytes; after `seconds`, rows are left out of the comparison.

        `SpecError` where the definition cannot be evaluated for a part of the case.
        """
        self.bench, self.sample, self.memory, self.seconds = bench, sample, memory, seconds
        self.mechanism = bench.mechanism
        self.sizes = {n: x for n, x in sample.values.items() if n in self.mechanism.sizes}
        first = self.mechanism.outputs[0]
        self.labels = labels_of(self.mechanism, first)
        axes = [label for label in restrictable(self.mechanism) if label in self.labels[:-1]]
        self.restriction: Restriction = restricted(self.mechanism, axes)
        copies = self.restriction.sources
        plain = [label for label in axes if label not in copies]
        if not plain:
            raise SpecError(f"{self.mechanism.name} cannot be evaluated in parts")
        self.row = max(plain, key=self.labels.index)
        self.axes = [label for label in self.labels if label in axes and label != self.row]
        self.tiled = False
        self.shapes = {name: output_shape(self.mechanism, name, self.sizes) for name in self._determined}

    @property
    def _determined(self) -> list[str]:
        return [name for name in self.mechanism.outputs if name not in self.mechanism.random]

    def needs(self) -> int:
        """About how many bytes the larger of both processes takes."""
        width = {"float64": 8, "float32": 4}.get(self.bench.dtype, 2)
        inputs = [x.size for x in self.sample.values.values() if isinstance(x, (Drawn, np.ndarray))]
        there = (width * sum(inputs) + 4 * max(inputs, default=0)) + 2 * width * math.prod(
            next(iter(self.shapes.values()))
        )
        here = 8 * max(
            (self._part(x, name) for name, x in self.sample.values.items() if isinstance(x, Drawn)), default=0
        )
        return max(there, 12 * here)

    def _part(self, x: Drawn, name: str) -> int:
        """Entries of an input in one item."""
        shape = list(x.shape)
        for axis, label in self.restriction.places(name, x):
            shape[axis] = 1 if label in (*self.axes, *self.restriction.sources.values()) else min(shape[axis], 256)
        return math.prod(shape)

    def judged(self, grades: Sequence[Grade]) -> Judged:
        """The verdict at the first of the grades, which is the one that is claimed."""
        if self.needs() > self.memory:
            told = ", ".join(f"{name} = {n}" for name, n in self.sizes.items())
            raise Unroomy(
                f"a case with {told} takes about {self.needs() / 1e9:.1f} GB, and --memory is {self.memory / 1e9:g} GB"
            )
        subject = large_subject(self.bench.subject)
        if subject is None:
            raise Declined("it is called in this process, and keeps no outputs")
        try:
            return self._judged(subject, grades)
        except LostError as lost:
            return Judged(math.inf, lost.fault.says, lost.fault)
        finally:
            subject.release()

    def _judged(self, subject: LargeSubject, grades: Sequence[Grade]) -> Judged:
        call = claimed(self.bench, self.sample, Settled(self.sample.values))
        found = subject.hold(call, self.shapes)
        if found.fault is not None:
            if found.fault.kind == "unsupported":
                raise Declined(found.fault.says)
            return Judged(math.inf, found.fault.says, found.fault)
        names = [name for name in self._determined if name in found.shapes]
        with np.errstate(all="ignore"), budget.roomy(self.memory):
            self._orient()
            items = [*self._items()]
            worst, seen = self._screened(subject, items, names)
            chosen = self._chosen(worst, len(items))
            excess, says, count, wrong = self._exactly(subject, items, chosen, names, grades[0])
            if excess > 1:
                says = f"{says}, and {wrong} of {count} rows that were judged are wrong"
            if 2 * wrong > count:
                looser = next((g for g in grades[1:] if self._exactly(subject, items, chosen, names, g)[0] <= 1), None)
                says = f"behaves as {looser}, claims {grades[0]}: {says}" if looser is not None else says
            beyond = found.beyond
            if not beyond and self._lost(subject, items, chosen, names):
                beyond = reads_beyond(subject, call, self.shapes, lambda: self._lost(subject, items, chosen, names))
        return Judged(excess, beyond or says, None, len(items) * self.sizes[self.row], seen, count, beyond)

    def _lost(
        self, subject: LargeSubject, items: Sequence[_Item], chosen: Mapping[int, Sequence[int]], names: Sequence[str]
    ) -> bool:
        """Whether an entry of the chosen rows is no number; the definition of a large case has none that is not."""
        each = ((items[number], np.asarray(rows), name) for number, rows in chosen.items() for name in names)
        return any(bool(np.isnan(self._observed(subject, item, rows, name)).any()) for item, rows, name in each)

    # Items

    def _orient(self) -> None:
        """Find out whether copies are of one after the other or of the whole, which a word decides."""
        for _ in range(len(self.restriction.axes) + 1):
            last = {axis: np.array([max(self.sizes[axis] - 2, 0)]) for axis in self.axes}
            try:
                self._outputs(self._frame(_Item(last), np.array([0]), None), self._determined[:1])
            except SpecError as error:
                if UNLIKE in error.message:
                    self.tiled = True
                else:
                    self._widen(error)
            else:
                return

    def _widen(self, error: SpecError) -> None:
        """Take an axis as a whole that is asked for as such under some words; `SpecError` where it is that of rows."""
        found = re.search(rf"the axis (\w+) {ALONG}", error.message)
        if found is None or found[1] == self.row:
            raise error
        kept = self.restriction.axes - {found[1]}
        alone = found[1] in self._sources or not self._sources <= self.restriction.axes
        self.axes = [axis for axis in self.axes if axis in kept]
        self.restriction = restricted(self.mechanism, kept - (self._sources if alone else set()), alone=alone)

    @property
    def _sources(self) -> frozenset[str]:
        return frozenset(self.restriction.sources.values())

    def _items(self) -> Iterator[_Item]:
        """All of them: positions one by one, and copies with those of the same source."""
        parts = []
        for axis in self.axes:
            n, source = self.sizes[axis], self.restriction.sources.get(axis)
            if source is None:
                parts.append([np.array([at]) for at in range(n)])
            else:
                whole = [np.flatnonzero(self._source_of(axis, source) == at) for at in range(self.sizes[source])]
                parts.append(
                    [some for each in whole for some in np.split(each, range(self._copies, len(each), self._copies))]
                )
        for places in itertools.product(*parts):
            yield _Item(dict(zip(self.axes, places, strict=True)))

    @property
    def _copies(self) -> int:
        """How many copies are evaluated together, so that they stay within a stretch."""
        drawn = ((name, x) for name, x in self.sample.values.items() if isinstance(x, Drawn))
        return max(1, COPIES // max((self._part(x, name) for name, x in drawn), default=1))

    def _source_of(self, axis: str, source: str) -> NDArray[np.int64]:
        """Of which place each copy is, by the words of the subject."""
        times = max(self.sizes[axis] // max(self.sizes[source], 1), 1)
        everything = np.arange(self.sizes[axis])
        return everything % self.sizes[source] if self.tiled else everything // times

    def _frame(self, item: _Item, rows: NDArray[np.int64], grade: Grade | None) -> Frame:
        """The definition on some rows of an item."""
        positions = {**item.positions, self.row: rows}
        for axis, source in self.restriction.sources.items():
            if source in self.restriction.axes:
                positions[source] = np.unique(self._source_of(axis, source)[positions[axis]])
        values = {**self.sample.values, **self.bench.words}
        for name in (*self.mechanism.inputs, *self.mechanism.options):
            x = self.sample.values.get(name)
            if isinstance(x, (Drawn, np.ndarray)):
                values[name] = self._gathered(item, name, x, positions)
        return self.restriction.frame(values, positions, grade=grade, dtype=self.bench.dtype, sizes=self.sizes)

    def _gathered(self, item: _Item, name: str, x: Any, positions: Mapping[str, Any]) -> Any:
        if name in item.values:
            return item.values[name]
        if not isinstance(x, Drawn):
            return self.restriction.gathered(name, x, positions, self.sizes)
        places = {axis: positions[label] for axis, label in self.restriction.places(name, x)}
        found = rounded(x.part(places), FORMATS[self.mechanism.dtype_of(name, self.bench.dtype)])
        if self.row not in (label for _, label in self.restriction.places(name, x)):
            item.values[name] = found
        return found

    def _outputs(self, frame: Frame, names: Sequence[str]) -> dict[str, Any]:
        with recording():
            return frame.outputs(*names)

    def _observed(self, subject: LargeSubject, item: _Item, rows: NDArray[np.int64], name: str) -> NDArray[np.float64]:
        """What the subject gave for some rows of an item."""
        labels, shape = labels_of(self.mechanism, name), self.shapes[name]
        positions = {**item.positions, self.row: rows}
        places = [positions.get(label, np.arange(n)) for label, n in zip(labels, shape, strict=True)]
        stretches = [_stretches(each) for each in places]
        found = np.empty([len(each) for each in places])
        for boxes in itertools.product(*stretches):
            into = tuple(slice(at, at + stop - start) for at, start, stop in boxes)
            found[into] = subject.part(name, tuple((start, stop) for _, start, stop in boxes))
        return found

    # Choosing rows

    def _screened(self, subject: LargeSubject, items: list[_Item], names: Sequence[str]) -> tuple[list[_Row], int]:
        """The rows that differ most from the definition, and how many rows were compared."""
        n, seen, worst = self.sizes[self.row], 0, list[_Row]()
        deadline, seed = time.monotonic() + self.seconds, self.sample.case.seed
        order = sorted(range(len(items)), key=lambda at: (at not in (0, len(items) - 1), pick(1 << 30, seed, at)))
        for number in order:
            item = items[number]
            step = self._step(item)
            for start in range(0, n, step):
                if time.monotonic() > deadline and seen:
                    return sorted(worst, reverse=True), seen
                rows = np.arange(start, min(start + step, n))
                gaps = self._gaps(subject, item, rows, names)
                seen += len(rows)
                for row, gap in zip(rows, gaps, strict=True):
                    each = _Row(float(gap), number, int(row))
                    if len(worst) < WORST:
                        heapq.heappush(worst, each)
                    elif each > worst[0]:
                        heapq.heapreplace(worst, each)
            if number != order[0]:
                item.values.clear()
        return sorted(worst, reverse=True), seen

    def _step(self, item: _Item) -> int:
        """How many rows are evaluated at a time."""
        beside = math.prod(len(places) for places in item.positions.values())
        across = max(self._across, 1)
        return max(1, min(STRETCH // (beside * across), self.sizes[self.row]))

    @property
    def _across(self) -> int:
        """The entries of the widest line in one row: the longest of the sizes that nothing is cut along."""
        free = [
            n
            for name, n in self.sizes.items()
            if name not in (*self.axes, self.row, *self.restriction.sources.values())
        ]
        return max(free, default=1)

    def _gaps(self, subject: LargeSubject, item: _Item, rows: NDArray[np.int64], names: Sequence[str]) -> Any:
        """How much each row differs from the definition, whatever rounding may do; infinite where it is no number."""
        exact = self._outputs(self._frame(item, rows, None), names)
        gaps = np.zeros(len(rows))
        for name in names:
            y, x = self._observed(subject, item, rows, name), np.asarray(exact[name], float)
            gap = np.abs(y - np.broadcast_to(x, y.shape))
            gap = np.where((y == x) | (np.isnan(y) & np.isnan(x)), 0.0, np.where(np.isnan(gap), np.inf, gap))
            gaps = np.maximum(gaps, self._by_row(gap, name, len(rows)))
        return gaps

    def _chosen(self, worst: Sequence[_Row], count: int) -> dict[int, list[int]]:
        """The rows that are judged, by item."""
        n, seed = self.sizes[self.row], self.sample.case.seed
        chosen: dict[int, set[int]] = {}
        for each in worst:
            if each.item in chosen or len(chosen) < ITEMS:
                chosen.setdefault(each.item, set()).add(each.row)
        for turn in range(FURTHER):
            item = (
                [*chosen][turn % len(chosen)] if len(chosen) >= min(ITEMS, count) else pick(count, seed, "item", turn)
            )
            row = EDGES[pick(len(EDGES), seed, "edge", turn)] if turn % 2 else pick(n, seed, "row", turn)
            if -n <= row < n:
                chosen.setdefault(item, set()).add(row % n)
        return {item: sorted(rows) for item, rows in chosen.items()}

    # Judging

    def _exactly(
        self,
        subject: LargeSubject,
        items: Sequence[_Item],
        chosen: Mapping[int, Sequence[int]],
        names: Sequence[str],
        grade: Grade,
    ) -> tuple[float, str, int, int]:
        """The largest error in units of its bound, where that is, how many rows these are, and how many are wrong."""
        excess, says, count, wrong = 0.0, "", 0, 0
        several = sum(math.prod(shape) for name, shape in self.shapes.items() if name in names)
        for number, rows in chosen.items():
            item, places = items[number], np.asarray(rows)
            count += len(rows)
            bad = np.zeros(len(rows), bool)
            exact = self._outputs(self._frame(item, places, None), names)
            bounded = self._outputs(self._frame(item, places, grade), names)
            for name in names:
                y = self._observed(subject, item, places, name)
                units = self._units(y, exact[name], bounded[name], name, grade, several)
                bad |= self._by_row(units, name, len(rows)) > 1
                if units.max(initial=0.0) > excess:
                    excess = float(units.max())
                    at = np.unravel_index(int(units.argmax()), units.shape)
                    says = self._told(
                        name, item, places, at, y, np.broadcast_to(np.asarray(exact[name], float), y.shape)
                    )
            wrong += int(bad.sum())
        return excess, says, count, wrong

    def _by_row(self, x: NDArray[np.float64], name: str, count: int) -> NDArray[np.float64]:
        """The largest entry of each row of an output."""
        labels = labels_of(self.mechanism, name)
        if self.row not in labels:
            return np.full(count, x.max(initial=0.0))
        at = labels.index(self.row)
        return x.max(axis=tuple(axis for axis in range(x.ndim) if axis != at), initial=0.0)

    def _units(self, y: NDArray[np.float64], exact: Any, bounded: Any, name: str, grade: Grade, several: int) -> Any:
        """Errors in units of the bound of the largest of so many entries."""
        x = bounded if isinstance(bounded, Number) else Number(np.asarray(bounded, float), grade=grade)
        plain = np.broadcast_to(np.asarray(exact, float), y.shape)
        wider = math.sqrt(1 + 2 * math.log(max(several, 1)) / K**2)
        radius = np.minimum(x.full(np.asarray(x.worst)), wider * np.asarray(x.radius))
        moved = np.abs(x.value - plain)
        radius = radius * (2.0 if grade is FP64 else 1.0) + np.where(moved > np.asarray(x.radius) / 4, moved, 0.0)
        radius = np.broadcast_to(radius, y.shape)
        result = result_format(self.mechanism.dtype_of(name, self.bench.dtype), grade)
        reach = np.maximum(np.abs(finite(np.broadcast_to(x.value, y.shape))) + finite(radius), np.abs(finite(y)))
        radius = np.where(np.isnan(radius), np.inf, radius) + half_unit(reach, result)
        same = (y == plain) | (np.isnan(y) & np.isnan(plain)) | np.isinf(radius)
        return np.where(same, 0.0, np.where(np.isfinite(y) & np.isfinite(plain), np.abs(y - plain) / radius, np.inf))

    def _told(self, name: str, item: _Item, rows: NDArray[np.int64], at: Any, y: Any, x: Any) -> str:
        """An entry that is wrong, in words."""
        places = {**item.positions, self.row: rows}
        labels = labels_of(self.mechanism, name)
        index = [int(places[label][i]) if label in places else int(i) for label, i in zip(labels, at, strict=True)]
        return f"{name}{index} is {y[at]:.6g}, expected {x[at]:.6g}"


def _stretches(places: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Runs of neighbouring places: where each begins in the list, and the first place and the one behind the last."""
    breaks = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    return [(a, int(places[a]), int(places[b - 1]) + 1) for a, b in itertools.pairwise(breaks) if b > a]
