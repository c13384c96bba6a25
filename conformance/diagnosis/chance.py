"""Which outputs of a call depend on the random numbers that the definition draws; the others can be compared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import SpecError
from ..judging.settling import Settled
from ..judging.trial import Trial
from ..language.expressions import Expression
from ..mechanisms.definition import Frame, reached_by
from ..mechanisms.mechanism import DRAW, Mechanism

EXTREMES = ("0.0 * ", "0.999999 * 1.0 ** ")
"""What is put before a draw for the least and the greatest number of its range."""


def drawn(trial: Trial, settled: Settled) -> frozenset[str]:
    """The random outputs that are others where all numbers that are drawn are least, or greatest."""
    m = trial.mechanism
    if not (m.random and m.stochastic):
        return frozenset()
    key = ("drawn", m.name, trial.bench.words_key, settled.key)
    if key not in trial.sample.passing:
        trial.sample.passing[key] = frozenset(_drawn(trial, settled))
    return trial.sample.passing[key]


def _drawn(trial: Trial, settled: Settled) -> Iterator[str]:
    m = trial.mechanism
    plain = Frame(m, {**settled.values, **trial.bench.words})
    for name in m.random:
        try:
            own = np.asarray(plain.outputs(name)[name])
            others = [np.asarray(_with(m, plain, before).outputs(name)[name]) for before in EXTREMES]
        except SpecError:
            yield name
            continue
        if not all(np.array_equal(own, x, equal_nan=own.dtype.kind == "f") for x in others):
            yield name


def _with(m: Mechanism, plain: Frame, before: str) -> Frame:
    """The definition with other numbers in the place of those that it draws."""
    lines = {name: line for name, line in m.definition.items() if DRAW in line.text}
    changes = {name: Expression.unread(x.text.replace(DRAW, before + DRAW), x.scope) for name, x in lines.items()}
    return Frame(m, plain.values, changes=changes, unchanged=plain, reached=reached_by(m, frozenset(changes)))
