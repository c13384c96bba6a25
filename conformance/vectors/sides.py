"""One side of a comparison as a sum of moved entries, found by evaluating it on chosen outputs.

An entry of a side is `constant + factor * output[place] + ...`, with at most one entry of each output of each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..judging.environments import LawEnvironment
from ..judging.settling import Settled
from ..judging.trial import Trial
from ..language.expressions import Expression
from ..language.scopes import CallSite
from ..mechanisms.mechanism import Law
from ..numerics.numbers import value
from ..numerics.streams import Stream
from .claims import NotPlain

Asked = tuple[tuple[Any, ...], str]
"""A call by its key, and an output of it."""
NEAR = 1e-9
"""How nearly a side is the sum that it is taken for, as a share of its entries: what float64 leaves."""
TRIED = 2
"""How many drawn outputs that is tried on."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Entries of an output, moved and multiplied; both arrays have the shape of the side."""

    asked: Asked
    factor: NDArray[np.float64]
    place: NDArray[np.int64]
    """Which entry it is, in C order; -1 where the term has none."""

    def of(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """What it adds, for an output."""
        flat = np.append(np.asarray(y, np.float64).reshape(-1), 0.0)
        return np.where(self.place < 0, 0.0, self.factor * flat[self.place])


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A sum of terms and a constant."""

    terms: Sequence[Term]
    constant: NDArray[np.float64]

    def of(self, outputs: Mapping[Asked, NDArray[Any]]) -> NDArray[np.float64]:
        """Its entries, for outputs."""
        with np.errstate(all="ignore"):
            return sum((term.of(outputs[term.asked]) for term in self.terms), self.constant)

    def spread(self, shape: tuple[int, ...]) -> Side:
        """The same with the shape of what it is compared with."""
        terms = [
            Term(t.asked, np.array(np.broadcast_to(t.factor, shape)), np.array(np.broadcast_to(t.place, shape)))
            for t in self.terms
        ]
        return Side(terms, np.array(np.broadcast_to(self.constant, shape)))


class _Chosen(LawEnvironment):
    """A law's environment in which outputs are what was chosen, and 0 where nothing was."""

    def __init__(self, trial: Trial, law: Law, chosen: Mapping[Asked, NDArray[np.float64]]) -> None:
        super().__init__(trial, law, None)
        self.chosen = chosen
        self.asked: dict[Asked, Settled] = {}

    def output(self, name: str, site: CallSite | None) -> Any:
        settled = self.settled(site)
        key = (settled.key, name)
        self.asked[key] = settled
        return self.chosen[key] if key in self.chosen else np.zeros(self.trial.frames.shape(name, settled))


@np.errstate(all="ignore")
def side_of(expression: Expression, trial: Trial, law: Law) -> tuple[Side, dict[Asked, Settled]]:
    """A side of a comparison, and the calls that it asks for; `NotPlain` where it is no such sum."""

    def at(chosen: Mapping[Asked, NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.asarray(value(expression(_Chosen(trial, law, chosen))), np.float64)

    first = _Chosen(trial, law, {})
    constant = np.asarray(value(expression(first)), np.float64)
    shapes = {key: trial.frames.shape(key[1], settled) for key, settled in first.asked.items()}
    terms = []
    for key, shape in shapes.items():
        numbered = 1.0 + np.arange(np.prod(shape, dtype=int)).reshape(shape)
        factor, moved = at({key: np.ones(shape)}) - constant, at({key: numbered}) - constant
        used = np.isfinite(factor) & (factor != 0)
        place = np.where(used, np.rint(np.divide(moved, factor, out=np.ones_like(moved), where=used)) - 1, -1)
        if not ((place >= -1) & (place < numbered.size)).all():  # NaN is no place either
            raise NotPlain
        if used.any():
            terms.append(Term(key, np.where(used, factor, 0.0), place.astype(np.int64)))
    side = Side(terms, constant)
    for turn in range(TRIED):
        drawn = {key: Stream(turn, f"{key[1]}.{i}").normal(shape) for i, (key, shape) in enumerate(shapes.items())}
        expected, found = at(drawn), side.of(drawn)
        if expected.shape != found.shape or not np.allclose(expected, found, NEAR, NEAR, equal_nan=True):
            raise NotPlain
    return side, {term.asked: first.asked[term.asked] for term in terms}
