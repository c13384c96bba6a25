"""What the definition gives on a call and what a subject returned, and how near outputs are to each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..judging.settling import Declined, Settled
from ..judging.trial import Faulted, Trial
from ..mechanisms.definition import Frame
from ..mechanisms.restriction import labels_of
from ..numerics import budget
from ..numerics.codes import CODES
from ..numerics.comparing import recording
from ..numerics.formats import KINDS, half_unit
from ..numerics.grades import LADDER, Grade, result_format
from ..numerics.numbers import Number, value
from ..numerics.parts import all_finite, finite
from ..numerics.truths import every
from .chance import drawn
from .versions import Version, bound_of, close, near_entries

LITTLE = 1e-9
"""By what share of its largest entry an input is off where equal entries are to be in doubt."""


class Compared:
    """One call, as the definition has it, and as the subject answers it, which is asked when needed."""

    def __init__(self, trial: Trial, settled: Settled, grade: Grade, names: Collection[str] = ()) -> None:
        """Bounds are those of the grade; with `names`, only these outputs are looked at."""
        self.trial, self.settled, self.grade = trial, settled, grade
        self.mechanism, self.dtype = trial.mechanism, trial.bench.dtype
        by_chance = drawn(trial, settled)
        self.names = [n for n in self.mechanism.outputs if n not in by_chance and (not names or n in names)]
        self.entries = trial.sample.entries

    @property
    def key(self) -> tuple[Any, ...]:
        """By which two observations are known to be of the same call."""
        return self.mechanism.name, self.trial.sample.key, self.settled.key

    def answered(self) -> bool:
        """Ask the subject; whether it has returned something to compare."""
        try:
            reply = self.trial.reply(self.settled)
            if any(name not in reply.outputs for name in self.names):
                self.names = [name for name in self.names if name in reply.outputs]
            return bool(self.names and self.exact)
        except (Declined, Faulted, SpecError):
            return False

    def raises(self) -> bool:
        """Whether the subject gives no result."""
        try:
            self.trial.reply(self.settled)
        except Faulted:
            return True
        except (Declined, SpecError):
            pass
        return False

    def defined(self) -> bool:
        """Whether the definition has a value: an array may not go with options that have been changed beside it."""
        try:
            return bool(self.exact)
        except SpecError:
            return False

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """What the subject returned."""
        returned = self.trial.reply(self.settled).outputs
        return {name: returned[name] for name in self.names}

    @cached_property
    def exact(self) -> Version:
        """What the definition gives."""
        values = {name: np.asarray(self.trial.frames.exact(name, self.settled)) for name in self.names}
        return Version(values, self._bound)

    def _bound(self, name: str) -> Any:
        """What rounding may do to an output of the definition; infinite where it may do anything."""
        if name in self.mechanism.random:
            y = self._unchanged(self.trial.bench.words, self.grade).outputs(name)[name]
            return bound_of(y, self.exact.values[name], self.grade)
        radius = self.trial.frames.bound(name, self.settled, self.grade)[1]
        return np.where(np.isnan(radius), np.inf, radius)

    def _unchanged(self, words: Mapping[str, str], grade: Grade | None) -> Frame:
        """The definition under some words: exact, with the range of the arithmetic, or with the bounds of a grade."""
        key = ("unchanged", self.mechanism.name, tuple(words.values()), self.settled.key, grade and grade.name)
        if key not in self.trial.sample.passing:
            values = {**self.settled.values, **words}
            if grade is None:
                frame = Frame(self.mechanism, values, overflow=LADDER[self.dtype][0].arithmetic)
            else:
                moved = {n: Number.within(values[n], x, grade=grade) for n, x in self._errors.items()}
                frame = Frame(self.mechanism, {**values, **moved}, grade=grade, dtype=self.dtype)
            self.trial.sample.passing[key] = frame
        return self.trial.sample.passing[key]

    @property
    def _errors(self) -> Mapping[str, Any]:
        """How far inputs may be from what was meant: a little, where outputs are choices, so that any equal will do."""
        if not self.mechanism.random or self.mechanism.stochastic:
            return self.settled.errors
        inputs = {name: self.settled.values[name] for name in self.mechanism.inputs}
        floats = {name: x for name, x in inputs.items() if isinstance(x, np.ndarray) and x.dtype.kind == "f"}
        return {name: LITTLE * (np.max(finite(np.abs(x)), initial=0.0) or 1.0) for name, x in floats.items()} | {
            **self.settled.errors
        }

    @cached_property
    def wrong(self) -> frozenset[str]:
        """The outputs that are not what the definition gives."""
        exact = self.exact
        return frozenset(n for n in self.names if not self._near(n, exact.values[n], self.outputs[n], (exact,)))

    @property
    def right(self) -> bool:
        """Whether the subject returned what the definition gives."""
        return not self.wrong

    def _near(self, name: str, x: Any, y: Any, versions: Collection[Version], unknown: Version | None = None) -> bool:
        """Whether outputs are as near as the bounds of versions allow, and the rounding of what is returned.

        What the `unknown` one leaves open is near to anything; beyond that its bound is not asked for.
        """
        if np.shape(x) != np.shape(y):
            return False
        x, y = np.asarray(x, float), np.asarray(y, float)
        if every(x == y) or close(x, y, self._own(name, x, y)):
            return True
        radius = sum(np.asarray(version.radius(name), float) for version in versions)
        if unknown is not None:
            radius = radius + np.where(np.isinf(unknown.radius(name)), np.inf, 0.0)
        x, y, radius = self._normal(name, x, y, radius)
        return close(x, y, radius + self._own(name, finite(np.abs(x)) + finite(radius), y))

    def _own(self, name: str, x: Any, y: Any) -> Any:
        """Half a unit of what outputs are returned in."""
        dtype = self.mechanism.dtype_of(name, self.dtype)
        if dtype in KINDS or dtype in CODES:
            return 0.0
        x, y = np.abs(np.asarray(x, float)), np.abs(np.asarray(y, float))
        size = np.maximum(x, y)
        if not all_finite(size):
            size = np.maximum(finite(x), finite(y))
        return half_unit(size, result_format(dtype, self.grade))

    def _normal(self, name: str, x: Any, y: Any, radius: Any) -> tuple[Any, Any, Any]:
        """Two outputs and their bound in normal form, which is what is compared."""
        x, y = np.asarray(x, float), np.asarray(y, float)
        if name not in self.mechanism.normal_form:
            return x, y, radius
        with np.errstate(all="ignore"), budget.metered(), recording():
            known, other = (self.trial.frames.normal(name, z) for z in (Number.within(x, radius), y))
        return value(known), value(other), known.radius if isinstance(known, Number) else 0.0

    @cached_property
    def _off(self) -> dict[str, tuple[NDArray[np.bool_], float]]:
        """For each output that is wrong which entries are, and how far these are off together, if all are finite."""
        found = {}
        for name in self.wrong:
            x, y = (np.asarray(part, float) for part in (self.exact.values[name], self.outputs[name]))
            if np.shape(x) != np.shape(y):
                found[name] = np.zeros(np.shape(y), bool), np.inf
                continue
            wrong = ~near_entries(x, y, self.exact.radius(name) + self._own(name, x, y))
            with np.errstate(all="ignore"):
                off = np.sum(np.abs(x - y), where=wrong)
            found[name] = wrong, float(off) if np.isfinite(off) else np.inf
        return found

    def strays(self) -> dict[str, NDArray[np.bool_]]:
        """For each axis of outputs that are wrong, which of its positions have a wrong entry."""
        found: dict[str, NDArray[np.bool_]] = {}
        for name in sorted(self.wrong - set(self.mechanism.normal_form)):
            x, y = np.asarray(self.outputs[name], float), np.asarray(self.exact.values[name], float)
            labels = self._labels(name)
            if x.shape != y.shape or len(labels) > x.ndim:
                continue
            wrong = ~near_entries(x, y, self.exact.radius(name) + self._own(name, x, y))
            for at, axis in enumerate(labels, x.ndim - len(labels)):
                if axis in self.mechanism.sizes and labels.count(axis) == 1 and x.shape[at] > 1:
                    own = wrong.any(tuple(other for other in range(x.ndim) if other != at))
                    if own.any():
                        found[axis] = found[axis] | own if axis in found and len(found[axis]) == len(own) else own
        return found

    def _labels(self, name: str) -> tuple[str, ...]:
        try:
            return labels_of(self.mechanism, name)
        except (SpecError, IndexError):
            return ()
