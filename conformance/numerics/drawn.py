"""Large random arrays that are generated where they are used, completely or in part.

An array is a key and a shape. Every entry is made of one word of a counter-based stream, at the place of the entry, so
that any part of it is the same bits in every process, and nothing but the key crosses a pipe.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .formats import FLOAT64, Format, rounded_singles
from .streams import digest

CHUNK = 1 << 14
"""Entries that are made at a time: so few that they lie in the cache, and in memory that is there already, which is
asked for anew from 2 ** 17 bytes on."""
WORDS = 4
"""Words of a stream at each of its places."""
LOWER = np.uint32(0xFFFF)
"""The lower 16 of 32 bits."""
DENSE = 16
"""How many times as many entries are made as are wanted, rather than to begin a stream anew for each run of them."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Nearly normal numbers: the sum of four uniform ones, of mean 0 and variance 4/3, multiples of 2 ** -15.

    All of them are exact in single precision. `order` and `folded` say how its axes lie for who is handed the whole.
    """

    key: str
    shape: tuple[int, ...]
    order: tuple[int, ...] = ()
    folded: tuple[int, ...] = ()
    apart: int = 0
    """How many entries of memory lie between the first and the last place of its first axis that has several."""
    axis: int = 0
    pool: int = 0
    """How many places `axis` has for who is handed the array, which fills those of `places` alone; nothing if as many
    as it has."""
    strides: tuple[int, ...] = ()
    """How many entries of memory lie between neighbours along each axis for who is handed the array, if not as many as
    there are entries."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __mul__(self, factor: Any) -> Drawn:
        if factor != 1:
            raise TypeError("a large array is drawn as it is, and not computed with")
        return self

    @property
    def places(self) -> NDArray[np.int64]:
        """Which places of a pool the positions of `axis` are: far apart, the last one the last."""
        return pool_places(self.shape[self.axis], self.pool)

    @property
    def handed_axis(self) -> int:
        """Where `axis` is among those that are handed over; `ValueError` where it is folded into another one."""
        if not self.order:
            return self.axis
        at = self.order.index(self.axis)
        ahead = math.prod(self.shape[axis] for axis in self.order[:at])
        for place, n in enumerate(self.folded):
            if math.prod(self.folded[:place]) == ahead and n == self.shape[self.axis]:
                return place
        raise ValueError("an axis of a pool is folded into another one")

    @property
    def handed_strides(self) -> tuple[int, ...]:
        """The strides of the axes that are handed over; none where some of them are folded into one."""
        if not self.strides or not self.order:
            return self.strides
        plain = self.folded == tuple(self.shape[axis] for axis in self.order)
        return tuple(self.strides[axis] for axis in self.order) if plain else ()

    def whole(self, into: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """All entries, with the axes in their order; NaN where there is no key, for what is to be written.

        They are put `into` the memory of a plain array, if there is one.
        """
        found = np.empty(self.size, np.float32) if into is None or self.order else into
        if not self.key:
            found.fill(np.nan)
        else:
            for start, entries in self.stretches():
                found[start : start + len(entries)] = entries
        if not self.order:
            return found.reshape(self.folded or self.shape)
        moved = np.empty(self.size, np.float32) if into is None else into
        moved = moved.reshape([self.shape[axis] for axis in self.order])
        moved[...] = found.reshape(self.shape).transpose(self.order)
        return moved.reshape(self.folded)

    def stretches(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """All entries, a stretch at a time, each time with the place of the first of them."""
        return self._chunks(0, self.size, CHUNK)

    def entries(self, start: int, stop: int) -> NDArray[np.float32]:
        """The entries of a stretch, counted over all axes."""
        return next(self._chunks(start, stop, max(stop - start, 1)), (0, np.empty(0, np.float32)))[1]

    def _chunks(self, start: int, stop: int, step: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The entries of a stretch, so many at a time, each time with the place of the first of them."""
        first, key = start // WORDS, digest(self.key, size=16)
        stream = np.random.Philox(key=key, counter=first)
        stream.random_raw(start - first * WORDS, output=False)
        for at in range(start, stop, step):
            yield at, _entries(stream.random_raw(min(step, stop - at)))

    def part(self, places: Mapping[int, Any], fmt: Format = FLOAT64) -> NDArray[np.float32]:
        """The entries at places along some axes, and at all places along the others, rounded to a format.

        They are rounded a stretch at a time, while it is at hand; what is rounded is exact in single precision, too.
        """
        chosen = [np.asarray(places[at]) if at in places else np.arange(n) for at, n in enumerate(self.shape)]
        last, leading = chosen[-1], [len(each) for each in chosen[:-1]]
        width = self.shape[-1]
        rows = np.zeros((), np.int64)
        for each, n in zip(chosen[:-1], self.shape[:-1], strict=True):
            rows = rows[..., None] * n + each
        flat = rows.ravel()
        found = np.empty((len(flat), width), np.float32)
        for start, stop in _runs(flat):
            entries = self._stretch(int(flat[start]), int(flat[stop - 1]) + 1, fmt)
            found[start:stop] = entries if len(entries) == stop - start else entries[flat[start:stop] - flat[start]]
        if last.size != width or np.any(last != np.arange(width)):
            found = found[:, last]
        return found.reshape(*leading, len(last))

    def _stretch(self, first: int, end: int, fmt: Format) -> NDArray[np.float32]:
        width, found = self.shape[-1], np.empty((end - first, self.shape[-1]), np.float32)
        step = max(CHUNK // max(width, 1), 1)
        for start, made in self._chunks(first * width, end * width, step * width):
            rows = rounded_singles(made, fmt).reshape(-1, width)
            at = start // width - first
            found[at : at + len(rows)] = rows
        return found


def _entries(words: NDArray[np.uint64]) -> NDArray[np.float32]:
    """The entry of every word, whose memory is used: the sum of its four parts of 16 bits."""
    pairs = words.view(np.uint32)
    sums = pairs & LOWER
    sums += np.right_shift(pairs, np.uint32(16), out=pairs)
    both = sums.view(np.uint64)
    both += np.right_shift(both, np.uint64(32), out=words)
    found = both.astype(np.uint32).astype(np.float32)
    found -= np.float32(131070)
    found *= np.float32(2.0**-15)
    return found


def pool_places(count: int, pool: int) -> NDArray[np.int64]:
    """So many places of a larger pool, far apart, of which the last one is the last."""
    gap = max(pool // max(count, 1), 1)
    return pool - 1 - gap * np.arange(count - 1, -1, -1)


def _runs(rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Stretches of rising row numbers that are made together, as places in a list of them."""
    if not len(rows):
        return
    gaps = np.diff(rows)
    breaks = [0, *(np.flatnonzero((gaps <= 0) | (gaps > DENSE)) + 1).tolist(), len(rows)]
    yield from itertools.pairwise(breaks)
