"""Worked examples, line by line: the value of each line of a definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cases.plans import directed
from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..mechanisms.definition import Frame
from ..mechanisms.mechanism import Example, Mechanism
from ..numerics import budget
from ..subjects.stand_ins import DefinitionSubject

ENTRIES = 200
"""Entries of an array that are written out."""


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a definition, what it reads, and what it comes to."""

    name: str
    expression: str
    reads: tuple[str, ...]
    value: str
    shape: str


@dataclass(frozen=True, slots=True)
class Walk:
    """A worked example."""

    name: str
    given: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    gives: tuple[tuple[str, str], ...]


def walks(m: Mechanism) -> Iterator[Walk]:
    """The worked examples of a mechanism; of one by reference they have no lines."""
    for case in directed(m, DefinitionSubject(m, "definition").claims, 0):
        example = m.examples.get(case.scenario.removeprefix("example:"))
        if example is not None and case.scenario.startswith("example:"):
            try:
                frame = Frame(m, Sample(m, case, "float64").values)
                yield _walk(m, example, frame)
            except (Unfit, SpecError):
                continue


def _walk(m: Mechanism, example: Example, frame: Frame) -> Walk:
    with np.errstate(all="ignore"), budget.metered():
        for name in example.gives:
            _ = frame[name]
    lines = [(name, value) for name, value in frame.memo.items() if name in m.definition]
    steps = (_step(m, name, value) for name, value in lines)
    gives = {name: printed.value for name, printed in example.gives.items()}
    return Walk(
        example.name,
        tuple((name, x.text) for name, x in example.given.items()),
        tuple(steps),
        tuple((name, shown(np.asarray(x))) for name, x in gives.items()),
    )


def _step(m: Mechanism, name: str, value: Any) -> Step:
    line = m.definition[name]
    return Step(name, line.text, tuple(sorted(line.uses)), shown(value), shape(value))


def shown(x: Any) -> str:
    """A value as text, arrays row by row as far as they are small."""
    if not isinstance(x, np.ndarray):
        return str(x).lower() if isinstance(x, bool | None) else f"{x:.7g}" if isinstance(x, float) else str(x)
    if x.size > ENTRIES:
        return f"{x.size} entries, from {np.nanmin(x):.5g} to {np.nanmax(x):.5g}"
    return np.array2string(x, precision=6, separator=", ", threshold=ENTRIES + 1, max_line_width=88)


def shape(x: Any) -> str:
    return " × ".join(map(str, x.shape)) if isinstance(x, np.ndarray) and x.ndim else ""
