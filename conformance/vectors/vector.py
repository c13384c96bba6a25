"""One vector: a call, and the definition's values and bounds at a grade, entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.samples import Sample
from ..execution.calling import Call, Reply
from ..frameworks.framework import numpy_dtype
from ..judging.bench import Bench
from ..judging.settling import Declined
from ..judging.trial import Trial
from ..mechanisms.mechanism import Mechanism
from ..numerics import budget
from ..numerics.grades import FP64, Grade
from ..numerics.numbers import number
from .tensors import narrowed

REFUTED = 1.0
"""The error in units of the bound beyond which an output is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """What is expected of an output; both arrays have its shape and are float64."""

    expected: NDArray[np.float64]
    bound: NDArray[np.float64]
    """How far rounding may take each entry: infinite where the definition leaves it open, zero where it is exact."""
    dtype: str
    """The dtype in which it is returned; `integer`, `boolean` or `number` where any of that kind will do."""

    def excess(self, y: NDArray[Any]) -> float:
        """The largest error of what was returned, in units of the bound; infinite for another shape or a lost NaN."""
        if y.shape != self.expected.shape:
            return np.inf
        with np.errstate(all="ignore"):
            x, y = self.expected, y.astype(np.float64)
            gap = np.abs(y - x)
            units = np.where(np.isnan(gap) | (self.bound == 0), np.inf, gap / self.bound)
            fine = (x == y) | (np.isnan(x) & np.isnan(y)) | np.isinf(self.bound)
            return float(np.where(fine, 0.0, units).max(initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A call with what is expected of it."""

    trial: Trial
    grade: Grade
    call: Call
    outputs: Mapping[str, Output]
    """Those that are not random."""
    conventions: Mapping[str, str]
    """The words that the definition asks for in this case."""

    @property
    def mechanism(self) -> Mechanism:
        return self.trial.mechanism

    @property
    def sample(self) -> Sample:
        return self.trial.sample

    @property
    def name(self) -> str:
        return f"{self.mechanism.name}.{self.call.dtype}.{self.sample.key}"

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays by name: inputs in their stored dtype, expected entries and bounds."""
        m, values = self.mechanism, self.sample.values
        found = {}
        for name, x in self.call.inputs.items():
            found[f"{self.name}/{name}"] = stored(m, name, x, self.call.dtype, values)
        for name, output in self.outputs.items():
            found[f"{self.name}/{name}.expected"] = output.expected
            found[f"{self.name}/{name}.bound"] = narrowed(output.bound)
        return found

    @property
    def nbytes(self) -> int:
        """About how much room it takes in a file."""
        entries = sum(x.size for x in self.call.inputs.values())
        return 4 * entries + sum(12 * output.expected.size for output in self.outputs.values())


def stored(mechanism: Mechanism, name: str, x: NDArray[Any], dtype: str, values: Mapping[str, Any]) -> NDArray[Any]:
    """An input in the dtype in which a kernel gets it."""
    return x.astype(numpy_dtype(mechanism.dtype_of(name, dtype, values))) if x.dtype.kind == "f" else x


def unvectored(mechanism: Mechanism) -> str | None:
    """Why no output of a mechanism can be stated as entries with bounds; None where they can."""
    if mechanism.undetermined:
        return "its outputs are random, and judged by laws alone"
    if mechanism.normal_form:
        return "its outputs are compared in a normal form, and not entry by entry"
    return None


def vector_of(bench: Bench, sample: Sample, grade: Grade) -> Vector | None:
    """The vector of a case; None where the subject does not claim it."""
    trial = Trial(bench, sample, fair=False)
    try:
        call = trial.call(trial.base)
        with np.errstate(all="ignore"), budget.metered():
            frame = trial.frames.on_case()
            exact = {name: np.asarray(x) for name, x in frame.outputs().items() if name not in bench.mechanism.random}
            trial.replies[trial.base.key] = Reply(exact)
            outputs = {name: _output(trial, name, x, grade) for name, x in exact.items()}
    except Declined:
        return None
    asked = {c: word for c, word in bench.words.items() if c in frame.turned_on and c in bench.mechanism.conventions}
    return Vector(trial, grade, call, outputs, asked)


def _output(trial: Trial, name: str, exact: NDArray[Any], grade: Grade) -> Output:
    y = number(trial.number(name, trial.base, grade, fair=False), FP64)
    bound = np.broadcast_to(np.asarray(y.radius, np.float64), exact.shape)
    dtype = trial.mechanism.dtype_of(name, trial.bench.dtype)
    return Output(exact.astype(np.float64), np.array(bound), dtype)
