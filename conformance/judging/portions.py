"""The parts of a large case that are evaluated together, and the results of the definition and of a subject there.

An item is one position of every axis along which nothing is computed, but for the axis of rows, which is taken in
stretches. Copies, such as heads that share keys, are items together.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.large import LargeSample
from ..errors import SpecError
from ..language.labels import ALONG
from ..language.restricting import UNLIKE
from ..mechanisms.definition import Frame
from ..mechanisms.restriction import Restriction, labels_of, output_shape, restrictable, restricted
from ..numerics.comparing import recording
from ..numerics.drawn import Drawn
from ..numerics.formats import FORMATS
from ..numerics.grades import Grade
from ..subjects.large import LargeSubject
from .bench import Bench
from .folding import Folded

STRETCH = 2_000_000
"""Entries of scores that are computed at a time in double precision."""
COPIES = 1_000_000
"""Entries of inputs that are taken together for several positions of an axis."""
VIEWS = 1 << 27
"""Entries that copies have at a time, which are views of what they are copies of."""
FURTHER = 8
"""How many times as many rows may be taken at a time where those before them looked at few places."""
ROWS = 256
"""Positions of the axis of rows whose inputs are there at a time."""

Rows = NDArray[np.int64]


@dataclass(slots=True)
class Item:
    """What is evaluated together: positions of all restricted axes but the one of rows."""

    positions: dict[str, Rows]


@dataclass(frozen=True, slots=True)
class Between:
    """Some places of an axis along which what is not there counts for nothing."""

    restriction: Restriction
    axis: str
    start: int
    stop: int

    def cut(self, name: str, x: NDArray[Any], n: int) -> NDArray[Any]:
        """What of an input is there, of one that has the whole axis of `n` places."""
        for at, label in self.restriction.places(name, x):
            if label == self.axis and x.shape[at] == n:
                x = x[(*(slice(None),) * at, slice(self.start, self.stop))]
        return x


class Portions:
    """A large case in parts that are small enough to be evaluated."""

    def __init__(self, bench: Bench, sample: LargeSample) -> None:
        """`SpecError` where the definition cannot be evaluated for a part of the case."""
        self.bench, self.sample = bench, sample
        self.mechanism = bench.mechanism
        self.sizes = {n: x for n, x in sample.values.items() if n in self.mechanism.sizes}
        self.labels = labels_of(self.mechanism, self.mechanism.outputs[0])
        axes = [label for label in restrictable(self.mechanism) if label in self.labels[:-1]]
        self.restriction: Restriction = restricted(self.mechanism, axes)
        plain = [label for label in axes if label not in self.restriction.sources]
        if not plain:
            raise SpecError(f"{self.mechanism.name} cannot be evaluated in parts")
        self.row = max(plain, key=self.labels.index)
        self.axes = [label for label in self.labels if label in axes and label != self.row]
        self.tiled = False
        self.stretch = STRETCH
        """Entries of scores that are computed at a time."""
        self.room = 0
        """Bytes that parts of inputs may take beside the last one of each."""
        self._made: dict[tuple[str, Any], NDArray[np.floating]] = {}
        """Parts of inputs that were made, by the input and the places, the last one used behind all others."""
        self._sums: dict[str, tuple[Any, NDArray[Any]]] = {}
        """The last sums of each input, and what they are sums of."""
        self.determined = [name for name in self.mechanism.outputs if name not in self.mechanism.random]
        lengths = {n: x for n, x in sample.values.items() if n in self.mechanism.options and type(x) is int}
        self.shapes = {n: output_shape(self.mechanism, n, {**lengths, **self.sizes}) for n in self.determined}

    @property
    def rows(self) -> int:
        """How many rows an item has."""
        return int(self.sizes[self.row])

    @property
    def scores(self) -> int:
        """Entries of the widest line in all rows of all items."""
        return math.prod(self.sizes[axis] for axis in self.axes) * self.rows * self._across

    @property
    def largest(self) -> int:
        """Entries of the largest input in one item."""
        return max((self._part(x, name) for name, x in self._drawn), default=1)

    @property
    def _drawn(self) -> list[tuple[str, Drawn]]:
        return [(name, x) for name, x in self.sample.values.items() if isinstance(x, Drawn)]

    def _part(self, x: Drawn, name: str) -> int:
        shape = list(x.shape)
        for axis, label in self.restriction.places(name, x):
            shape[axis] = 1 if label in (*self.axes, *self._sources) else min(shape[axis], ROWS)
        return math.prod(shape)

    # Items

    def orient(self) -> None:
        """Find out whether copies are of one after the other or of the whole, which a word decides."""
        for _ in range(len(self.restriction.axes) + 1):
            last = {axis: np.array([max(self.sizes[axis] - 2, 0)]) for axis in self.axes}
            try:
                self.outputs(self.frame(Item(last), np.array([0]), None, single=True), self.determined[:1])
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

    def items(self) -> Iterator[Item]:
        """All of them: copies with those of the same source, and other positions as many together as are cheap."""
        parts, most, views = dict[str, list[Rows]](), max(1, COPIES // self.largest), max(1, VIEWS // self.largest)
        copies = math.prod(min(self.sizes[a] // max(self.sizes[b], 1), views) for a, b in self._copies)
        room = max(1, min(STRETCH // max(self.rows * self._across * copies, 1), most))
        for axis in reversed(self.axes):
            n, source = self.sizes[axis], self.restriction.sources.get(axis)
            if source is None:
                parts[axis] = list(np.split(np.arange(n), range(room, n, room)))
                room = max(1, room // max(n, 1))
            else:
                whole = [np.flatnonzero(self._source_of(axis, source) == at) for at in range(self.sizes[source])]
                parts[axis] = [some for each in whole for some in np.split(each, range(views, len(each), views))]
        for places in itertools.product(*(parts[axis] for axis in self.axes)):
            yield Item(dict(zip(self.axes, places, strict=True)))

    def around(self, items: Sequence[Item], name: str, place: Sequence[int]) -> tuple[Item, int] | None:
        """What is evaluated for an entry of an output, with its row; None where that is of no row."""
        at = dict(zip(labels_of(self.mechanism, name), place, strict=True))
        if not {self.row, *self.axes} <= set(at):
            return None
        own = next(each for each in items if all(at[axis] in some for axis, some in each.positions.items()))
        plain = {axis: np.array([at[axis]]) for axis in self.axes if axis not in self.restriction.sources}
        return Item({**own.positions, **plain}), at[self.row]

    @property
    def _copies(self) -> list[tuple[str, str]]:
        """The axes of copies, and the one that each has copies of."""
        return [(axis, source) for axis, source in self.restriction.sources.items() if axis in self.axes]

    def narrowed(self, item: Item, *measures: NDArray[Any]) -> Item:
        """An item at few positions of each axis that is no axis of copies: where a measure of all rows is largest."""
        labels = self.labels[:-1]
        places = [item.positions.get(label, np.arange(self.sizes[label])) for label in labels]
        parts = [np.nan_to_num(each[np.ix_(*places)], nan=-1.0, posinf=np.inf) for each in measures]
        most = np.array([np.unravel_index(int(part.argmax()), part.shape) for part in parts])
        at = {label: np.unique(most[:, axis]) for axis, label in enumerate(labels)}
        plain = [axis for axis in item.positions if axis not in self.restriction.sources]
        return Item({**item.positions, **{axis: item.positions[axis][at[axis]] for axis in plain}})

    def _source_of(self, axis: str, source: str) -> Rows:
        """Of which place each copy is, by the words of the subject."""
        times = max(self.sizes[axis] // max(self.sizes[source], 1), 1)
        everything = np.arange(self.sizes[axis])
        return everything % self.sizes[source] if self.tiled else everything // times

    def step(self, item: Item, looked: int = 0) -> int:
        """How many rows of an item are evaluated at a time.

        They may be more where the last ones `looked` at few places of the widest axis, and each sees one more of them
        at most; not too many, for what they see is not known.
        """
        beside = math.prod(len(places) for places in item.positions.values())
        step = max(1, self.stretch // (beside * max(self._across, 1)))
        if looked:
            more = (math.isqrt(looked * looked + 4 * (self.stretch // beside)) - looked) // 2
            step = max(step, min(more, FURTHER * step))
        return min(step, self.rows)

    @property
    def _across(self) -> int:
        """The entries of the widest line in one row: the longest of the sizes that nothing is cut along."""
        cut = (*self.axes, self.row, *self._sources)
        return max((n for name, n in self.sizes.items() if name not in cut), default=1)

    # What is said of rows

    def frame(
        self,
        item: Item,
        rows: Rows,
        grade: Grade | None,
        *,
        single: bool = False,
        between: Between | None = None,
        sums: Folded | None = None,
    ) -> Frame:
        """The definition on some rows of an item, in single precision if it is to be.

        It is that of the places `between` two of an axis alone, and of `sums` of channels, if there are to be any.
        """
        positions = {**item.positions, self.row: rows}
        for axis, source in self.restriction.sources.items():
            if source in self.restriction.axes:
                positions[source] = np.unique(self._source_of(axis, source)[positions[axis]])
        values = {**self.sample.values, **self.bench.words}
        for name in (*self.mechanism.inputs, *self.mechanism.options):
            x = self.sample.values.get(name)
            if isinstance(x, (Drawn, np.ndarray)):
                values[name] = self._gathered(name, x, positions, single)
        restriction = self.restriction
        if sums is not None:
            restriction, positions[sums.label] = sums.restriction, np.arange(sums.count)
            values |= {name: self._summed(name, values[name], sums) for name in sums.inputs}
        if between is not None:
            restriction, positions[between.axis] = between.restriction, np.arange(between.start, between.stop)
            for name in (*self.mechanism.inputs, *self.mechanism.options):
                if isinstance(x := values.get(name), np.ndarray) and x.ndim:
                    values[name] = between.cut(name, x, self.sizes[between.axis])
        return restriction.frame(values, positions, grade=grade, dtype=self.bench.dtype, sizes=self.sizes)

    def _gathered(self, name: str, x: Any, positions: Mapping[str, Any], single: bool) -> Any:
        if not isinstance(x, Drawn):
            found = self.restriction.gathered(name, x, positions, self.sizes)
            return found.astype(np.float32) if single and found.dtype.kind == "f" else found
        places = {axis: positions[label] for axis, label in self.restriction.places(name, x)}
        wanted = name, tuple((axis, at.tobytes()) for axis, at in places.items())
        known = self._made.pop(wanted, None)
        if known is None:
            self._make_room(name)
            known = x.part(places, FORMATS[self.mechanism.dtype_of(name, self.bench.dtype)])
        self._made[wanted] = known
        return known if single else known.astype(np.float64)

    def _make_room(self, name: str) -> None:
        """Let go of parts of an input, the longest unused first, until those that are kept fit the room."""
        taken = sum(part.nbytes for part in self._made.values())
        for each in [each for each in self._made if each[0] == name]:
            if taken <= self.room:
                return
            taken -= self._made.pop(each).nbytes

    def _summed(self, name: str, x: NDArray[Any], sums: Folded) -> NDArray[Any]:
        known = self._sums.get(name)
        if known is None or known[0] is not x:
            self._sums.pop(name, None)
            known = self._sums[name] = x, sums.of(x)
        return known[1]

    def outputs(self, frame: Frame, names: Sequence[str]) -> dict[str, Any]:
        with recording():
            return frame.outputs(*names)

    def observed(self, subject: LargeSubject, item: Item, rows: Rows, name: str) -> NDArray[np.float64]:
        """What the subject gave for some rows of an item."""
        places = self.places(item, rows, name)
        stretches = [_stretches(each) for each in places]
        found = np.empty([len(each) for each in places])
        for boxes in itertools.product(*stretches):
            into = tuple(slice(at, at + stop - start) for at, start, stop in boxes)
            found[into] = subject.part(name, tuple((start, stop) for _, start, stop in boxes))
        return found

    def places(self, item: Item, rows: Rows, name: str) -> list[Rows]:
        """Which places of each axis of an output some rows of an item are."""
        positions = {**item.positions, self.row: rows}
        labels = labels_of(self.mechanism, name)
        return [positions.get(label, np.arange(n)) for label, n in zip(labels, self.shapes[name], strict=True)]

    def by_row(self, x: NDArray[Any], name: str, count: int) -> NDArray[Any]:
        """The largest entry of each row of an output."""
        labels = labels_of(self.mechanism, name)
        if self.row not in labels:
            return np.full(count, x.max(initial=0))
        at = labels.index(self.row)
        return x.max(axis=tuple(axis for axis in range(x.ndim) if axis != at), initial=0)


def _stretches(places: Rows) -> list[tuple[int, int, int]]:
    """Runs of neighbouring places: where each begins in the list, and the first place and the one behind the last."""
    breaks = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    return [(a, int(places[a]), int(places[b - 1]) + 1) for a, b in itertools.pairwise(breaks) if b > a]
