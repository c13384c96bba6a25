"""What rounds results more than it should: a conversion in one direction, or an intermediate of low precision.

Results that are computed with many more digits than they are stored with lie within half a unit of what is exact, on
either side.
Cut off, they lie within a whole unit on one side: some further from the exact value than half a unit, all on one side.
Where a line of the definition is stored in the narrow format, they lie within half a unit of what the definition gives
with this line rounded.
Nothing is said of wide formats, whose results are not exact enough for that to be seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..mechanisms.definition import Frame, reached_by
from ..mechanisms.mechanism import Mechanism
from ..numerics.formats import FORMATS, Format, half_unit, rounded
from .clock import now
from .likeness import Cause, Likeness
from .observations import Observation

NARROW = 11
"""The most binary digits of a format that results are computed much more exactly than."""
NOISE = 1 / 32
"""What arithmetic before the rounding may move a result by, in units of its last place."""
TELLING = 16
"""Entries that rounding to the nearest would have stored as another number."""
CALLS, ENTRIES = 6, 3_000
"""How many calls lines are tried on, and the most entries of such a call."""
FEWER = 0.1
"""The share of the entries that the definition does not give, which a rounded line may leave: where a line lies halfway
between two numbers, less than what arithmetic moves decides which is stored."""
SECONDS = 0.5
"""CPU time in which lines are tried."""
DIRECTIONS = {
    "towards_zero": "Results are cut off towards zero, where they are to be rounded to the nearest.",
    "down": "Results are rounded down, where they are to be rounded to the nearest.",
    "up": "Results are rounded up, where they are to be rounded to the nearest.",
    "away_from_zero": "Results are rounded away from zero, where they are to be rounded to the nearest.",
}


def directed(observations: Sequence[Observation]) -> Likeness | None:
    """The direction in which all results of some calls are rounded; None where there is none."""
    errors = [found for o in observations if o.answered() and (found := _errors(o)) is not None]
    if not errors:
        return None
    signs, units = (np.concatenate(parts) for parts in zip(*errors, strict=True))
    for name, moved in _moved(signs, units).items():
        if np.all((moved >= -NOISE) & (moved <= 1 + NOISE)) and np.sum(moved > 0.5 + NOISE) >= TELLING:
            calls = sum(bool(np.any(_moved(*one)[name] > 0.5 + NOISE)) for one in errors)
            return Likeness((Cause(f"rounding.{name}", DIRECTIONS[name]),), calls)
    return None


def _moved(signs: NDArray[np.float64], units: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """How far each direction has results moved, in units of the last place, from exact values of some signs."""
    return {"towards_zero": -signs * units, "down": -units, "up": units, "away_from_zero": signs * units}


def _errors(
    observation: Observation, values: Mapping[str, Any] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The signs of what results should be, and what was returned less these, in units of the last place.

    They should be what is exact, or some other `values`; None where all are wide.
    """
    signs, units = [], []
    values = observation.exact.values if values is None else values
    for name in observation.names:
        fmt = FORMATS.get(observation.mechanism.dtype_of(name, observation.dtype))
        if fmt is None or fmt.digits > NARROW:
            continue
        x, y = (np.asarray(found, float) for found in (values[name], observation.outputs[name]))
        if x.shape != y.shape:
            return None
        judged = np.isfinite(x) & np.isfinite(y) & (x != 0)
        x, y = x[judged], y[judged]
        signs.append(np.sign(x))
        units.append((y - x) / (2 * half_unit(x, fmt)))
    return (np.concatenate(signs), np.concatenate(units)) if signs else None


def narrowed(observations: Sequence[Observation], dtype: str) -> Likeness | None:
    """The line of the definition, or the two, that is stored in a narrow dtype; None where none explains results."""
    fmt, until = FORMATS[dtype], now() + SECONDS
    if fmt.digits > NARROW:
        return None
    small = [o for o in observations if o.entries <= ENTRIES and o.answered() and _errors(o) is not None]
    counted = sorted(((_missed(o, o.exact.values), o) for o in small), key=lambda one: -one[0])[:CALLS]
    telling, missed = [o for _, o in counted], sum(count for count, _ in counted)
    if missed < TELLING:
        return None
    least, found = FEWER * missed, []
    for parts in _tried(telling[0].mechanism, telling[0].names):
        if now() > until or (found and len(parts) > len(found[0])):
            break
        left = 0.0
        for o in telling:
            left += _missed(o, _Narrow(o, parts, fmt).results())
            if left > least:
                break
        else:
            least, found = (left, [parts]) if left < least else (least, [*found, parts])
    if not found:
        return None
    causes = tuple(Cause(f"rounding.{part.line}", part.says(dtype)) for part in found[0])
    others = (" and ".join(f"rounding.{part.line}" for part in parts) for parts in found[1:])
    return Likeness(causes, len(telling), tuple(dict.fromkeys(others)))


@dataclass(frozen=True, slots=True)
class _Part:
    """What is stored in a narrow dtype: a line of the definition, or its reciprocal."""

    line: str
    reciprocal: bool

    def says(self, dtype: str) -> str:
        what = f"The reciprocal of {self.line}" if self.reciprocal else f"{self.line}, a line of the definition,"
        return f"{what} is stored in {dtype}."

    def rounded(self, x: NDArray[np.float64], fmt: Format) -> NDArray[np.float64]:
        return 1 / rounded(1 / x, fmt) if self.reciprocal else rounded(x, fmt)


def _tried(mechanism: Mechanism, outputs: Collection[str]) -> Iterator[tuple[_Part, ...]]:
    """What results depend on, one and then two at a time."""
    names = [
        n
        for n in mechanism.definition
        if n not in outputs and not reached_by(mechanism, frozenset({n})).isdisjoint(outputs)
    ]
    parts = [_Part(name, reciprocal) for reciprocal in (False, True) for name in names]
    return chain(((part,) for part in parts), combinations(parts, 2))


def _missed(observation: Observation, values: Mapping[str, Any] | None) -> float:
    """How many entries of the results no rounding to the nearest makes of some values."""
    errors = None if values is None else _errors(observation, values)
    return float(np.sum(np.abs(errors[1]) > 0.5 + NOISE)) if errors else np.inf


class _Narrow(Frame):
    """The definition on a call with some lines rounded to a format."""

    def __init__(self, observation: Observation, parts: Collection[_Part], fmt: Format) -> None:
        mechanism, words = observation.mechanism, observation.trial.bench.words
        super().__init__(mechanism, {**observation.settled.values, **words})
        self.parts, self.fmt, self.names = {part.line: part for part in parts}, fmt, observation.names

    def original(self, name: str) -> Any:
        found = super().original(name)
        floating = isinstance(found, float) or (isinstance(found, np.ndarray) and found.dtype == np.float64)
        return self.parts[name].rounded(np.asarray(found), self.fmt) if name in self.parts and floating else found

    def results(self) -> dict[str, Any] | None:
        """The outputs; None where a rounded line has none."""
        try:
            with np.errstate(all="ignore"):
                return {name: np.asarray(self[name]) for name in self.names}
        except (SpecError, ValueError, ArithmeticError):
            return None
