"""What candidates give on a call that a subject has answered.

A candidate is run as the definition with changed lines, on the very call, and its outputs have bounds of their own,
derived as those of the definition are.
A faulty function is called; what it returns has errors of the size that the definition allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import SpecError
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from ..mechanisms.definition import Frame, reached_by
from ..numerics.comparing import recording
from ..subjects.stand_ins import differs
from .candidates import Candidate
from .compared import Compared
from .facts import Facts, facts_of, read_densely
from .places import Place
from .versions import Version, bound_of

BROKEN = (SpecError, ValueError, IndexError, TypeError, ArithmeticError)
"""What an evaluation of changed lines may raise."""
SAME: Mapping[str, Any] = {}
"""What a candidate gives that gives the same as the definition, in every line."""


class Running(Compared):
    """One call, on which candidates are run."""

    @cached_property
    def facts(self) -> Facts:
        """What is known of the call beside its arrays."""
        return facts_of(self.trial.sample, self.settled.values)

    def version(self, candidate: Candidate) -> Version | None:
        """What a candidate gives: the definition's own where that is the same, None where it cannot be run."""
        if candidate.each:
            return self._of_each(candidate.each)
        key = ("candidate", self.mechanism.name, candidate.name, *self.names, *self._words, self.settled.key)
        if key not in self.trial.sample.passing:
            run = self._run if candidate.function is None else self._call
            try:
                self.trial.sample.passing[key] = run(candidate) if self.speaks(candidate) else SAME
            except BROKEN:
                self.trial.sample.passing[key] = None
        values = self.trial.sample.passing[key]
        if values is None:
            return None
        return (
            self.exact if values is SAME else Version(values, lambda name: self._radius(candidate, name, values[name]))
        )

    def speaks(self, candidate: Candidate) -> bool:
        """Whether a candidate is about this call, and this mechanism has what it is about.

        What another one adds is not given in its calls. Lines of an operator that its definition calls, whose names
        have a dot, have what that operator has.
        """
        if candidate.where is not None and not candidate.where.holds(self.facts):
            return False
        known = self.mechanism.spoken
        return all("." in line or expression.uses <= known for line, expression in candidate.changes.items())

    def _of_each(self, candidates: Mapping[str, Candidate]) -> Version | None:
        """What candidates give that are each made in one output alone."""
        found: dict[str, Version] = {}
        for name in self.names:
            version = self.version(candidates[name]) if name in candidates else self.exact
            if version is None:
                return None
            found[name] = version
        if all(version is self.exact for version in found.values()):
            return self.exact
        values = {name: version.values[name] for name, version in found.items()}
        return Version(values, lambda name: found[name].radius(name))

    @property
    def _words(self) -> tuple[str, ...]:
        return self.trial.bench.words_key

    def _run(self, candidate: Candidate) -> Mapping[str, Any] | None:
        """What changed lines give; None where that is no array of numbers."""
        words = {**self.trial.bench.words, **candidate.words}
        base = self._unchanged(words, None)
        frame = self._changed(candidate, base)
        if candidate.dense or candidate.options:
            dense = any(frame.values[name] is not base.values[name] for name in candidate.dense)
            as_called = not candidate.words and all(base.values[name] == x for name, x in candidate.options.items())
            if not dense and as_called:
                return SAME
        elif not candidate.words and not differs(frame, base):
            return SAME
        shows = [name for name in self.names if not candidate.only or name in candidate.only]
        found = {name: np.asarray(x) for name, x in frame.outputs(*shows).items()}
        if any(x.dtype.hasobject for x in found.values()):  # as a line that gives none has it
            return None
        if candidate.place is not None:
            found = self._mixed(found, candidate.place)
        return {name: found[name] if name in found else self.exact.values[name] for name in self.names}

    def _call(self, candidate: Candidate) -> Mapping[str, Any] | None:
        """What a faulty function returns; None where it takes less, or follows other words that matter here."""
        function = candidate.function
        assert function is not None
        words = {**self.trial.bench.words, **self.mechanism.declared(function.claims.conventions)}
        other = self._unchanged(words, None).outputs(*self.names)
        if any(not np.array_equal(other[n], self.exact.values[n], equal_nan=True) for n in self.names):
            return None
        bench = replace(self.trial.bench, subject=function, device="cpu", faults=Counter())
        try:
            with function.session():
                outputs = Trial(bench, self.trial.sample).reply(self.settled).outputs
        except (Declined, Faulted):
            return None
        return {name: outputs[name] for name in self.names} if set(self.names) <= outputs.keys() else None

    def _radius(self, candidate: Candidate, name: str, x: Any) -> Any:
        """The bound of an output of a candidate; of a function, that of the definition, whose errors are like its."""
        key = ("candidate's bound", self.mechanism.name, candidate.name, name, *self._words, self.settled.key)
        key = (*key, self.grade.name)
        if key not in self.trial.sample.passing:
            radius = self._derived(candidate, name, x)
            # an edit leaves open what becomes of 0 / 0, which an implementation may well avoid
            self.trial.sample.passing[key] = np.where(np.isnan(x), np.inf, radius) if candidate.changed else radius
        return self.trial.sample.passing[key]

    def _derived(self, candidate: Candidate, name: str, x: Any) -> Any:
        if candidate.only and name not in candidate.only:
            return self.exact.radius(name)
        if candidate.function is None:
            try:
                with recording(), np.errstate(all="ignore"):
                    base = self._unchanged({**self.trial.bench.words, **candidate.words}, self.grade)
                    y = self._changed(candidate, base).outputs(name)[name]
                found = bound_of(y, x, self.grade)
                place = candidate.place
                return found if place is None else self._placed(name, found, self.exact.radius(name), place)
            except BROKEN:
                pass
        own = self.exact.radius(name)
        if np.shape(self.exact.values[name]) != np.shape(x):
            return 0.0
        if candidate.function is None:
            return 2 * own
        most = np.max(own, where=np.isfinite(own), initial=0.0)  # an entry may be made of others than it is to be
        return np.where(np.isfinite(own), 2 * most, own)

    def _dense(self, name: str) -> Any:
        """A required input as it lies in memory."""
        return read_densely(self.settled.values[name], self.trial.sample.layout, self.mechanism.required.index(name))

    def _changed(self, candidate: Candidate, base: Frame) -> Frame:
        if candidate.dense or candidate.options:
            values = {**base.values, **{name: self._dense(name) for name in candidate.dense}, **candidate.options}
            return Frame(self.mechanism, values, grade=base.grade, dtype=base.dtype, overflow=base.overflow)
        return Frame(
            self.mechanism,
            base.values,
            changes=candidate.changes,
            grade=base.grade,
            dtype=base.dtype,
            overflow=base.overflow,
            unchanged=base,
            reached=reached_by(self.mechanism, frozenset(candidate.changes)),
        )

    def _mixed(self, values: Mapping[str, Any], place: Place) -> dict[str, Any]:
        """Outputs at a place as they are given, and elsewhere as the definition has them."""
        return {name: self._placed(name, x, self.exact.values[name], place) for name, x in values.items()}

    def _placed(self, name: str, x: Any, y: Any, place: Place) -> Any:
        """An array of the shape of an output with `x` at a place and `y` elsewhere."""
        shape = np.shape(self.exact.values[name])
        mask = place.mask(shape, self._labels(name))
        if mask is None:
            return y
        return np.where(mask, x, y) if np.shape(x) in (shape, ()) else x
