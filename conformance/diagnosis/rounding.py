"""What rounds results more than it should: a conversion in one direction, or an intermediate of low precision.

Results that are computed with many more digits than they are stored with lie within half a unit of what is exact, on
either side.
Cut off, they lie within a whole unit on one side: some further from the exact value than half a unit, all on one side.
Where a line of the definition is stored in the narrow format, they lie within half a unit of what the definition gives
with this line rounded.
Results of a wide format have a line that is stored in a narrower one if they are within their bounds of that: what they
lose by it is thousands of bounds. Their own direction is not exact enough to be seen.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..mechanisms.definition import Frame, reached_by
from ..mechanisms.mechanism import Mechanism
from ..numerics.formats import FORMATS, Format, half_unit, rounded
from .clock import now
from .likeness import Cause, Likeness
from .observations import Observation
from .versions import near_entries

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
AVERAGE = re.compile(r"average\((\w+), (\w+)\)")
"""A line that is a weighted average of others."""
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
    """What is stored in a narrow dtype, a line of the definition or two; None where that explains no results."""
    own, until = FORMATS[dtype], now() + SECONDS
    wide = own.digits > NARROW
    small = [o for o in observations if o.entries <= ENTRIES and o.answered() and (wide or _errors(o) is not None)]
    counted = sorted(((_missed(o, o.exact.values), o) for o in small), key=lambda one: -one[0])[:CALLS]
    telling, missed = [o for _, o in counted], sum(count for count, _ in counted)
    if not TELLING <= missed < np.inf:  # what is rounded has the shape that it is to have
        return None
    formats = [fmt for fmt in FORMATS.values() if fmt.digits < own.digits] if wide else [own]
    least, found = FEWER * missed, []
    for parts in _tried(telling[0].mechanism, telling[0].names, formats, wide=wide):
        if now() > until or (found and len(parts) > len(found[0])):
            break
        left = 0.0
        for o in telling:
            left += _missed(o, _Narrow(o, parts).results())
            if left > least:
                break
        else:
            least, found = (left, [parts]) if left < least else (least, [*found, parts])
    if not found:
        return None
    causes = tuple(Cause(f"rounding.{part.name}", part.says) for part in found[0])
    others = (" and ".join(f"rounding.{part.name}" for part in parts) for parts in found[1:])
    return Likeness(causes, len(telling), tuple(dict.fromkeys(others)))


@dataclass(frozen=True, slots=True)
class _Part:
    """What is stored in a narrow dtype: inputs, a line of the definition, its reciprocal, or an average's weights."""

    name: str
    fmt: Format
    what: Literal["line", "reciprocal", "weights", "inputs"]
    names: tuple[str, ...]
    """What is rounded: the line, or the inputs."""

    @property
    def says(self) -> str:
        what = {
            "line": f"{self.name}, a line of the definition, is",
            "reciprocal": f"The reciprocal of {self.name} is",
            "weights": f"The weights of {self.name} are",
            "inputs": f"{'The input' if len(self.names) == 1 else 'Each of the inputs'} {', '.join(self.names)} is",
        }
        return f"{what[self.what]} stored in {self.fmt.name}."

    def rounded(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1 / rounded(1 / x, self.fmt) if self.what == "reciprocal" else rounded(x, self.fmt)


def _tried(
    mechanism: Mechanism, outputs: Collection[str], formats: Sequence[Format], *, wide: bool
) -> Iterator[tuple[_Part, ...]]:
    """What results depend on, one and then two at a time; of wide results, themselves and inputs as well."""
    lines = [
        name
        for name in mechanism.definition
        if (wide or name not in outputs) and not reached_by(mechanism, frozenset({name})).isdisjoint(outputs)
    ]
    averages = [name for name in lines if _average(mechanism, name)]
    required = mechanism.required if wide else ()
    floating = tuple(name for name in required if name not in mechanism.dtypes)
    parts = [
        *(_Part("inputs", fmt, "inputs", floating) for fmt in formats if len(floating) > 1),
        *(_Part(name, fmt, "inputs", (name,)) for fmt in formats for name in required),
        *(_Part(name, fmt, "line", (name,)) for fmt in formats for name in lines),
        *(_Part(name, fmt, "weights", (name,)) for fmt in formats for name in averages),
        *(_Part(name, fmt, "reciprocal", (name,)) for fmt in formats for name in lines),
    ]
    return chain(((part,) for part in parts), combinations(parts, 2))


def _average(mechanism: Mechanism, line: str) -> tuple[str, str] | None:
    """The weights and the values of a line that is a weighted average of lines, and no other."""
    found = AVERAGE.fullmatch(mechanism.definition[line].text)
    return (found[1], found[2]) if found else None


def _missed(observation: Observation, values: Mapping[str, Any] | None) -> float:
    """How many entries of the results are not what some values are, rounded to the nearest or, if wide, computed."""
    if values is None:
        return np.inf
    if FORMATS[observation.dtype].digits > NARROW:
        return float(sum(_beyond(observation, name, x) for name, x in values.items()))
    errors = _errors(observation, values)
    return float(np.sum(np.abs(errors[1]) > 0.5 + NOISE)) if errors else np.inf


def _beyond(observation: Observation, name: str, x: Any) -> float:
    """How many entries of an output are beyond their bounds from some values."""
    x, y = (np.asarray(found, float) for found in (x, observation.outputs[name]))
    return float(np.sum(~near_entries(x, y, observation.exact.radius(name)))) if x.shape == y.shape else np.inf


class _Narrow(Frame):
    """The definition on a call with some of what it computes rounded to a format."""

    def __init__(self, observation: Observation, parts: Collection[_Part]) -> None:
        mechanism, words = observation.mechanism, observation.trial.bench.words
        super().__init__(mechanism, {**observation.settled.values, **words})
        self.parts = {name: part for part in parts for name in part.names}
        self.names = observation.names

    def original(self, name: str) -> Any:
        part = self.parts.get(name)
        if part is not None and part.what == "weights" and (average := _average(self.mechanism, name)):
            return self._averaged(part, *average)
        found = super().original(name)
        if part is None or np.asarray(found).dtype.kind not in ("if" if part.what == "inputs" else "f"):
            return found
        return part.rounded(np.asarray(found, float))

    def _averaged(self, part: _Part, weights: str, values: str) -> Any:
        """A weighted average by weights that are divided by their sum and then rounded."""
        terms = np.asarray(self[weights], float)
        return part.rounded(terms / terms.sum(-1, keepdims=True)) @ np.asarray(self[values], float)

    def results(self) -> dict[str, Any] | None:
        """The outputs; None where a rounded line has none."""
        try:
            with np.errstate(all="ignore"):
                return {name: np.asarray(self[name]) for name in self.names}
        except (SpecError, ValueError, ArithmeticError, IndexError, TypeError):
            return None
