"""Whether the bits of a row depend on other rows of the call: their number, their contents, and how rows are split.

All calls have the same rows in other company, so that nothing but equality is asked, and no bound is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.large import LargeSample
from ..mechanisms.restriction import labels_of, restricted
from ..mechanisms.serving import Company
from ..numerics.drawn import Drawn
from ..numerics.formats import FORMATS
from .bench import Bench
from .settling import Declined, Settled, claimed

CHUNKS = (2, 3, 4, 32, 256)
"""Parts of the rows of a case that are asked for by themselves: a half, a third, and less."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call for some positions of an axis gave."""

    outputs: Mapping[str, NDArray[Any]]
    positions: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of the bits of rows."""

    same: bool
    says: str
    calls: int


def batches(bench: Bench, sample: LargeSample, company: Company) -> Observed:
    """The first row beside more and more others, in front of and behind others, and beside other ones.

    `Declined` where a call is refused or fails.
    """
    asked = _asked_of(bench, sample, company)
    n = asked.count
    alone, whole = asked.outputs([0]), asked.outputs(range(n))
    counts = [1 << power for power in range(1, n.bit_length()) if 1 << power < n]
    told = []
    beside = [(count, asked.outputs(range(count))) for count in counts] + [(n, whole)]
    other = next((count for count, found in beside if not asked.same(alone, found, [0], [0])), None)
    if other is not None:
        fewer = max((count for count, _ in beside if count < other), default=1)
        told.append(f"the same bits in batches of up to {fewer}; others in one of {other}")
    back = list(range(n))[::-1]
    if not asked.same(whole, asked.outputs(back), back, range(n)):
        told.append("other bits at another place")
    half = [0, *range(n // 2 + 1, n)]
    if not asked.same(asked.outputs(range(len(half))), asked.outputs(half), [0], [0]):
        told.append("other bits beside other rows")
    return Observed(not told, "; ".join(told) or f"the same bits in batches of 1 to {n}, at any place", asked.calls)


def chunks(bench: Bench, sample: LargeSample, company: Company) -> Observed:
    """The last rows of a case by themselves, fewer and fewer of them; `Declined` where a call is refused or fails."""
    asked = _asked_of(bench, sample, company)
    n, whole = asked.count, asked.outputs(range(asked.count))
    lengths = sorted({max(n // part, 1) for part in CHUNKS}, reverse=True)
    rows = {length: range(n - length, n) for length in lengths}
    other = [k for k, own in rows.items() if not asked.same(whole, asked.outputs(own), own, range(k))]
    if not other:
        return Observed(True, f"the same bits in chunks of 1 to {n} rows", asked.calls)
    same = [str(k) for k in (n, *lengths) if k not in other]
    says = f"the same bits in chunks of {_listed(same)} rows; others in those of {_listed([str(k) for k in other])}"
    return Observed(False, says, asked.calls)


def feedings(bench: Bench, sample: LargeSample, company: Company) -> Observed:
    """All rows of a case, fed at once and in shorter and shorter parts; `Declined` where a call is refused or fails."""
    asked = _Asked(bench, sample, company)
    n, whole = asked.count, asked.fed(company.option, [asked.count])
    lengths = sorted({max(n // part, 1) for part in CHUNKS}, reverse=True)
    parts = {length: [length] * (n // length) + [n % length] * (n % length > 0) for length in lengths}
    other = [k for k, own in parts.items() if not asked.same(whole, asked.fed(company.option, own), range(n), range(n))]
    if not other:
        return Observed(True, f"the same bits where {n} rows are fed in parts of 1 to {n}", asked.calls)
    same, others = ([str(k) for k in (n, *lengths) if (k in other) is wrong] for wrong in (False, True))
    says = f"the same bits where {n} rows are fed in parts of {_listed(same)}; others in those of {_listed(others)}"
    return Observed(False, says, asked.calls)


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _asked_of(bench: Bench, sample: LargeSample, company: Company) -> _Asked:
    return _AskedOfItems(bench, sample, company) if company.lengths else _Asked(bench, sample, company)


class _Asked:
    """Calls of a case for some positions of an axis."""

    def __init__(self, bench: Bench, sample: LargeSample, company: Company) -> None:
        self.bench, self.sample, self.axis = bench, sample, company.axis
        self.sizes = {n: x for n, x in sample.values.items() if n in bench.mechanism.sizes}
        self.values = {name: x for name, x in sample.values.items() if name not in bench.mechanism.inputs}
        self.values |= dict(self._whole())
        self.arrays = {n: x for n, x in self.values.items() if n in bench.mechanism.inputs and np.ndim(x)}
        self.count, self.calls = int(self.sizes[company.axis]), 0

    def _whole(self) -> Iterator[tuple[str, Any]]:
        for name in self.bench.mechanism.inputs:
            x = self.sample.values[name]
            if isinstance(x, Drawn):
                x = x.part({}, FORMATS[self.bench.mechanism.dtype_of(name, self.bench.dtype)]).astype(np.float64)
            yield name, x

    def outputs(self, positions: Iterable[int]) -> Answer:
        """What a call for some positions gives."""
        places = np.asarray(list(positions))
        return self._answered({**self.given(places), self.axis: len(places)}, places)

    def fed(self, option: str, parts: Sequence[int]) -> Answer:
        """What a call for all positions gives, of which so many are fed at a time."""
        return self._answered({option: np.asarray(parts)}, np.arange(self.count))

    def _answered(self, values: Mapping[str, Any], places: NDArray[np.int64]) -> Answer:
        call = claimed(self.bench, self.sample, Settled({**self.values, **values}))
        self.calls += 1
        reply = self.bench.subject.call(call)
        if reply.fault is not None:
            raise Declined(reply.fault.says)
        return Answer(reply.outputs, places)

    def given(self, places: NDArray[np.int64]) -> dict[str, Any]:
        """The arrays at some positions, and sizes that are others there."""
        part = restricted(self.bench.mechanism, {self.axis})
        return {n: part.gathered(n, x, {self.axis: places}, self.sizes) for n, x in self.arrays.items()}

    def entries(self, answer: Answer, rows: Sequence[int], label: str) -> NDArray[np.int64] | None:
        """Where the rows of an answer are along an axis of an output; None along which they are not."""
        return np.asarray(rows) if label == self.axis else None

    def same(self, first: Answer, second: Answer, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether rows of one answer have the bits of rows of another, in all outputs that have the axis."""
        mechanism = self.bench.mechanism
        for name in first.outputs:
            for at, label in enumerate(labels_of(mechanism, name)):
                places = self.entries(first, one, label), self.entries(second, other, label)
                if name in mechanism.random or places[0] is None or places[1] is None:
                    continue
                x, y = np.take(first.outputs[name], places[0], at), np.take(second.outputs[name], places[1], at)
                if not np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
                    return False
        return True


class _AskedOfItems(_Asked):
    """Calls for some of the items that lie one after the other in packed arrays."""

    def __init__(self, bench: Bench, sample: LargeSample, company: Company) -> None:
        super().__init__(bench, sample, company)
        self.lengths = {size: np.asarray(self.values[name], int) for name, size in company.lengths.items()}

    def given(self, places: NDArray[np.int64]) -> dict[str, Any]:
        everything = Answer({}, np.arange(self.count))
        tokens = {size: self.entries(everything, [*places], size) for size in self.lengths}
        found: dict[str, Any] = {size: int(own[places].sum()) for size, own in self.lengths.items()}
        for name, x in self.arrays.items():
            found[name] = x
            for at, label in enumerate(self.bench.mechanism.stating.shapes[name]):
                taken = places if label == self.axis else tokens.get(label or "")
                if taken is not None:
                    found[name] = np.take(found[name], taken, at)
        return found

    def entries(self, answer: Answer, rows: Sequence[int], label: str) -> NDArray[np.int64] | None:
        if label not in self.lengths:
            return super().entries(answer, rows, label)
        own = self.lengths[label][answer.positions]
        ends = np.cumsum(own)
        return np.concatenate([np.arange(ends[row] - own[row], ends[row]) for row in rows])
