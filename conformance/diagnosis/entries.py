"""The entry at which a law fails most: the value found, the expected value, and the error."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..judging.bounds import Stray
from ..judging.environments import LawEnvironment
from ..judging.judge import Missed, WorstEntry
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from ..mechanisms.mechanism import Law
from ..numerics import budget
from ..numerics.comparing import Comparison, recording
from ..numerics.grades import Grade
from ..numerics.truths import Truth, truth

ANOTHER = "another value"
"""What is expected where a value may be any but the one that was found."""


def worst_entry(trial: Trial, law: Law, grade: Grade | None) -> WorstEntry | None:
    """The worst entry of the comparison that refutes a law, under the claimed grade."""
    try:
        records, claim = compared(trial, law, grade)
    except (Stray, Declined, Faulted, SpecError):
        return _stray(trial, trial.mechanism.outputs)
    worst = _worst(records) or (_unequal(trial, trial.mechanism.outputs) if law.name == "definition" else None)
    if claim is not None and (worst is None or _alike(worst.found, worst.expected)):
        worst = _refuted(records, claim) or worst
    return _without_own_error(worst, trial, grade) if worst is not None and trial.bounds.widened else worst


def compared(trial: Trial, law: Law, grade: Grade | None) -> tuple[list[Comparison], Truth | None]:
    """The comparisons that a law makes on a case, under a grade, and what it claims; nothing for the definition."""
    claim = None
    with np.errstate(all="ignore"), budget.metered(), recording() as records:
        if law.name == "definition":
            _compare_outputs(trial, grade)
        else:
            claim = truth(law.holds(LawEnvironment(trial, law, grade)))
    return records, claim


def worst_of_output(trial: Trial, name: str, grade: Grade) -> WorstEntry | None:
    """The worst entry of one output against the definition; None where all of it is within its bounds."""
    try:
        with np.errstate(all="ignore"), budget.metered(), recording() as records:
            _compare(trial, name, grade)
    except Declined:
        return None
    except Stray:
        return _stray(trial, [name])
    return _worst(records) if records else _unequal(trial, [name])


def _without_own_error(entry: WorstEntry, trial: Trial, grade: Grade | None) -> WorstEntry:
    """An entry whose bound has the subject's own error in it, and so measures nothing.

    In its place stands how far the definition is missed, if it is.
    """
    try:
        with np.errstate(all="ignore"), budget.metered(), recording() as records:
            _compare_outputs(trial, grade)
    except (Stray, Declined, Faulted, SpecError):
        records = []
    worst = _worst(records)
    missed = None if worst is None else Missed(worst.units, worst.bound)
    return replace(entry, bound=math.inf, units=math.inf, missed=missed)


def _compare_outputs(trial: Trial, grade: Grade | None) -> None:
    for name in trial.mechanism.outputs:
        if name not in trial.mechanism.random:
            with suppress(Declined):
                _compare(trial, name, grade)


def _compare(trial: Trial, name: str, grade: Grade | None) -> None:
    """Compare an output with the definition, for the record that is kept of it."""
    y = trial.number(name, trial.base, grade, fair=False)
    _ = trial.frames.normal(name, y) == trial.frames.normal(name, trial.frames.exact(name, trial.base))


def _worst(records: list[Comparison]) -> WorstEntry | None:
    worst: WorstEntry | None = None
    for record in records:
        left, right, units = np.broadcast_arrays(record.left.value, record.right.value, record.units)
        if not units.size:
            continue
        index = np.unravel_index(int(np.argmax(units)), units.shape)
        if worst is None or units[index] > worst.units:
            bound = np.broadcast_to(record.radius, units.shape)[index]
            place = tuple(int(i) for i in index)
            worst = WorstEntry(
                left[index], right[index], float(bound), float(units[index]), place, int((units > 1).sum()), units.size
            )
    return worst if worst is not None and worst.units > 1 else None


def _refuted(records: list[Comparison], claim: Truth) -> WorstEntry | None:
    """Where a claim about booleans is false, what they are about: no comparison by itself says what is wrong."""
    false = np.asarray(~np.asarray(claim.can))
    for record in records:
        left, right, _ = np.broadcast_arrays(record.left.value, record.right.value, record.units)
        if left.shape == false.shape and false.any():
            first = _first(false, left, right)
            return replace(first, expected=ANOTHER) if _alike(first.found, first.expected) else first
    return None


def _alike(x: Any, y: Any) -> bool:
    return bool(x == y or (np.isnan(x) and np.isnan(y)))


def _unequal(trial: Trial, names: Collection[str]) -> WorstEntry | None:
    """The first of the integers or booleans of an output that is another one."""
    for name, y in _returned(trial, names):
        exact = np.asarray(trial.frames.exact(name, trial.base))
        if name not in trial.mechanism.random and y.shape == exact.shape and (y != exact).any():
            return _first(y != exact, y, exact)
    return None


def _stray(trial: Trial, names: Collection[str]) -> WorstEntry | None:
    """The first NaN in an output of the case itself that should not be there."""
    try:
        for name, y in _returned(trial, names):
            exact = np.broadcast_to(trial.frames.exact(name, trial.base), y.shape)
            lost = np.isnan(y) & ~np.isnan(exact)
            if lost.any():
                return _first(lost, y, exact)
    except (Declined, Faulted, SpecError):
        return None
    return None


def _returned(trial: Trial, names: Collection[str]) -> list[tuple[str, NDArray[Any]]]:
    """Those of some outputs that the subject returned for the case itself."""
    outputs = trial.reply(trial.base).outputs
    return [(name, outputs[name]) for name in outputs if name in names]


def _first(wrong: NDArray[np.bool_], found: NDArray[Any], expected: NDArray[Any]) -> WorstEntry:
    """The first of the entries that are wrong by more than any bound."""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return WorstEntry(found[index], expected[index], 0.0, math.inf, index, int(wrong.sum()), wrong.size)
