"""The values that a size or option may have: a list, a range, or all multiples of one number."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

FEW = 64
"""Values up to which a range is the same as their list."""
MOST = 2**20
"""Multiples are smaller than this."""


@dataclass(frozen=True, slots=True)
class Multiples(Collection[int]):
    """The sizes of a function that takes whole chunks only.

    Cases are drawn with small sizes, all of which are nearest to one chunk. So one or two come to one chunk, up to six
    to two, and more to three or what is nearest: only by three is seen what goes from chunk to chunk.
    """

    chunk: int

    def near(self, n: int) -> int:
        """The multiple that a drawn size comes to; the larger size never to the smaller multiple."""
        chunks = min(max((n + 1).bit_length() - 1, 1), 3)
        return self.chunk * max(chunks, (2 * n + self.chunk - 1) // (2 * self.chunk))

    def __contains__(self, x: object) -> bool:
        return allows(self.all, x)

    def __iter__(self) -> Iterator[int]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __str__(self) -> str:
        return f"multiples of {self.chunk}"

    @property
    def all(self) -> range:
        """They themselves."""
        return range(self.chunk, MOST, self.chunk)


def allows(values: Collection[Any], x: Any) -> bool:
    """Whether a limit has a value; a range is not gone through."""
    if not isinstance(values, range):
        return x in values
    if isinstance(x, float) and x.is_integer():
        x = int(x)
    return isinstance(x, int | np.integer) and int(x) in values


def nearest(values: Collection[Any], n: int) -> int | float | None:
    """The number of a limit that is nearest to `n`, the smaller of two; None where it has none."""
    if isinstance(values, Multiples):
        return values.near(n)
    if isinstance(values, range):
        values = values if values.step > 0 else values[::-1]
        below = (n - values.start) // values.step
        last = (values[-1] - values.start) // values.step
        values = {values[min(max(at, 0), last)] for at in (below, below + 1)}
    numbers = (x for x in values if isinstance(x, int | float))
    return min(numbers, key=lambda other: (abs(other - n), other), default=None)


def settled(values: Collection[Any]) -> Collection[Any]:
    """A limit as part of a key: the same for equal values, with a long range as it is."""
    whole = isinstance(values, Multiples) or (isinstance(values, range) and values[FEW:])
    return values if whole else tuple(values)
