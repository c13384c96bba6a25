"""Whether the bits of a row depend on what else is in a call: other rows and their number, its place, how rows are cut.

All calls have the same rows in other company, so that nothing but equality is asked, and no bound is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.large import LargeSample
from ..mechanisms.restriction import labels_of, restricted
from ..numerics.drawn import Drawn
from ..numerics.formats import FORMATS
from .bench import Bench
from .settling import Declined, Settled, claimed

CHUNKS = (2, 3, 4, 32, 256)
"""Parts of the rows of a case that are asked for by themselves: a half, a third, and less."""

Outputs = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of the bits of rows."""

    same: bool
    says: str
    calls: int


def batches(bench: Bench, sample: LargeSample, axis: str) -> Observed:
    """The first row beside more and more others, in front of and behind others, and beside other ones.

    `Declined` where a call is refused or fails.
    """
    asked = _Asked(bench, sample, axis)
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


def chunks(bench: Bench, sample: LargeSample, axis: str) -> Observed:
    """The last rows of a case by themselves, fewer and fewer of them; `Declined` where a call is refused or fails."""
    asked = _Asked(bench, sample, axis)
    n, whole = asked.count, asked.outputs(range(asked.count))
    lengths = sorted({max(n // part, 1) for part in CHUNKS}, reverse=True)
    rows = {length: range(n - length, n) for length in lengths}
    other = [k for k, own in rows.items() if not asked.same(whole, asked.outputs(own), own, range(k))]
    if not other:
        return Observed(True, f"the same bits in chunks of 1 to {n} rows", asked.calls)
    same = [str(k) for k in (n, *lengths) if k not in other]
    says = f"the same bits in chunks of {_listed(same)} rows; others in those of {_listed([str(k) for k in other])}"
    return Observed(False, says, asked.calls)


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


class _Asked:
    """Calls of a case for some positions of an axis."""

    def __init__(self, bench: Bench, sample: LargeSample, axis: str) -> None:
        self.bench, self.sample, self.axis = bench, sample, axis
        self.restriction = restricted(bench.mechanism, {axis})
        self.sizes = {n: x for n, x in sample.values.items() if n in bench.mechanism.sizes}
        self.values = {name: x for name, x in sample.values.items() if name not in bench.mechanism.inputs}
        self.values |= dict(self._whole())
        self.count, self.calls = int(self.sizes[axis]), 0

    def _whole(self) -> Iterator[tuple[str, Any]]:
        for name in self.bench.mechanism.inputs:
            x = self.sample.values[name]
            if isinstance(x, Drawn):
                x = x.part({}, FORMATS[self.bench.mechanism.dtype_of(name, self.bench.dtype)]).astype(np.float64)
            yield name, x

    def outputs(self, positions: Any) -> Outputs:
        """What a call for some positions gives."""
        places, m = {self.axis: np.asarray(list(positions))}, self.bench.mechanism
        arrays = {n: x for n, x in self.values.items() if n in m.inputs and isinstance(x, np.ndarray)}
        own = {n: self.restriction.gathered(n, x, places, self.sizes) for n, x in arrays.items()}
        call = claimed(self.bench, self.sample, Settled({**self.values, **own, self.axis: len(places[self.axis])}))
        self.calls += 1
        reply = self.bench.subject.call(call)
        if reply.fault is not None:
            raise Declined(reply.fault.says)
        return reply.outputs

    def same(self, first: Outputs, second: Outputs, one: Any, other: Any) -> bool:
        """Whether places of one answer have the bits of places of another, in all outputs that have the axis."""
        for name in first:
            labels = labels_of(self.bench.mechanism, name)
            if self.axis not in labels or name in self.bench.mechanism.random:
                continue
            at = labels.index(self.axis)
            x, y = np.take(first[name], list(one), at), np.take(second[name], list(other), at)
            if not np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
                return False
        return True
