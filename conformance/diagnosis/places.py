"""Places along an axis at which a mistake is made: items behind the first, keys from 64 on, second halves of tiles.

Where the entries of outputs that are wrong lie along an axis says at which of its positions a mistake may be made.
Along an axis that outputs do not have, such as that of keys, the sizes on which a subject is wrong say so: a line of
the definition is changed from a position on, and is as it was before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..language.computing import where
from ..language.expressions import Expression
from ..language.labels import Labels
from ..language.registry import shape_of
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.restriction import labels_of
from .facts import Facts
from .patterns import noun_of, plural

TILES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Lengths of the halves of tiles."""
SEVERAL = 2
"""Cases on which entries are wrong at some positions of an axis only, at least."""
MOST = 6
"""Places along axes of outputs that are tried, and sizes from which on a line is changed."""
LATER = 2


@dataclass(frozen=True, slots=True)
class Place:
    """Positions of an axis, by the name of its size."""

    axis: str
    kind: str
    """`from` a number on, `up to` a number, the `last` one, or the second `half` of tiles of twice a number."""
    number: int = 0

    def holds(self, n: int) -> NDArray[np.bool_]:
        """Which of so many positions these are."""
        at = np.arange(n)
        if self.kind == "from":
            return at >= self.number
        if self.kind == "up to":
            return at < self.number
        return at == n - 1 if self.kind == "last" else at % (2 * self.number) >= self.number

    @property
    def words(self) -> str:
        """As it follows the name of a mistake."""
        noun, k = noun_of(self.axis), self.number
        if self.kind == "from":
            return f"for every {noun} but the first" if k == 1 else f"for {plural(noun)} from {k} on"
        if self.kind == "up to":
            return f"for the first {noun}" if k == 1 else f"for the first {k} {plural(noun)}"
        if self.kind == "last":
            return f"for the last {noun}"
        return f"for every second {noun}" if k == 1 else f"for {plural(noun)} of the second half of each {2 * k}"

    def mask(self, shape: Sequence[int], labels: Labels) -> NDArray[np.bool_] | None:
        """Which entries of an array of that shape lie there; None where it has no such axis, or has it twice.

        Further axes, of which there are no labels, stand in front.
        """
        if len(labels) > len(shape) or labels.count(self.axis) != 1:
            return None
        at = labels.index(self.axis) - len(labels)
        return self.holds(shape[at]).reshape(-1, *(1,) * (-at - 1))


def places(found: Iterable[Mapping[str, NDArray[np.bool_]]]) -> list[Place]:
    """Where entries are wrong, given for each case which positions of each axis have some.

    An axis on which all of them are wrong tells nothing.
    """
    axes: dict[str, list[NDArray[np.bool_]]] = {}
    for case in found:
        for axis, wrong in case.items():
            axes.setdefault(axis, []).append(wrong)
    known = [place for axis, cases in axes.items() for place in _along(axis, cases)]
    return known[:MOST]


def _along(axis: str, cases: Sequence[NDArray[np.bool_]]) -> Iterator[Place]:
    first = min(int(np.flatnonzero(wrong)[0]) for wrong in cases)
    behind = max(int(np.flatnonzero(wrong)[-1]) for wrong in cases) + 1
    if first > 0 and sum(not wrong.all() for wrong in cases) >= SEVERAL:
        yield Place(axis, "from", first)
    elif sum(len(wrong) > behind for wrong in cases) >= SEVERAL:
        yield Place(axis, "up to", behind)
    if len({len(wrong) for wrong in cases if wrong[:-1].sum() == 0}) >= SEVERAL and all(
        not wrong[:-1].any() for wrong in cases
    ):
        yield Place(axis, "last")
    for half in TILES:
        tile = Place(axis, "half", half)
        if behind > 3 * half and not any((wrong & ~tile.holds(len(wrong))).any() for wrong in cases):
            yield tile
            return


def later(sizes: Iterable[str], wrong: Sequence[Facts], right: Sequence[Facts]) -> list[Place]:
    """From where on something may be wrong along an axis, by the sizes on which a subject is wrong.

    It is right on some smaller ones, and the number is a power of two, or all but one position.
    """
    found = []
    for name in sizes:
        least = min((facts.sizes.get(name, 0) for facts in wrong), default=0)
        smaller = [facts.sizes.get(name, 0) for facts in right if facts.sizes.get(name, 0) < least]
        if least > 1 and smaller:
            known = {2**k for k in range(12) if max(smaller) <= 2**k < least} | {least - 1}
            found += [Place(name, "from", k) for k in sorted(known)[-LATER:] if k > 0]
    return sorted(found, key=lambda place: -place.number)[:LATER]


class PlacedLine(Expression):
    """A line that is changed at some positions of an axis."""

    __slots__ = ("axis", "change", "line", "where")

    def __init__(self, line: str, change: Expression, place: Place, axis: int) -> None:
        """`axis` counts from the last one."""
        self.line, self.change, self.where, self.axis = line, change, place, axis
        self.text, self.scope, self.place, self.claim = f"{change.text} {place.words}", change.scope, None, change.claim
        self._work, self._run = change._work, self._placed
        self.uses, self.calls, self.asks, self.draws = change.uses | {line}, change.calls, change.asks, change.draws

    def _placed(self, environment: Any) -> Any:
        new, old = self.change(environment), environment[self.line]
        shape = shape_of(old)
        if shape != shape_of(new) or len(shape) < -self.axis:
            raise SpecError(f"{self.line} has another shape where it is changed")
        return where(self.where.holds(shape[self.axis]).reshape(-1, *(1,) * (-self.axis - 1)), new, old)


def placed_lines(m: Mechanism, changes: Mapping[str, Expression], place: Place) -> dict[str, Expression] | None:
    """Changes at a place alone; None where one of the lines has no such axis."""
    found: dict[str, Expression] = {}
    for line, change in changes.items():
        try:
            labels = labels_of(m, line)
        except SpecError:
            return None
        if labels.count(place.axis) != 1:
            return None
        found[line] = PlacedLine(line, change, place, labels.index(place.axis) - len(labels))
    return found
