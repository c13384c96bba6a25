"""How candidates compare with what a subject returned, call by call.

A candidate is run as the definition with changed lines, on the very call that the subject has answered, and its outputs
have bounds of their own, derived as those of the definition are: within them it agrees, and what it leaves unspecified,
or cannot determine, agrees with anything.
A faulty function is called; what it returns has errors of the size that the definition allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..judging.settling import Declined, Settled
from ..judging.trial import Faulted, Trial
from ..mechanisms.definition import Frame, reached_by
from ..mechanisms.restriction import labels_of
from ..numerics import budget
from ..numerics.codes import CODES
from ..numerics.comparing import recording
from ..numerics.formats import KINDS, half_unit
from ..numerics.grades import LADDER, Grade, result_format
from ..numerics.numbers import Number, value
from ..numerics.parts import all_finite, finite
from ..numerics.truths import every
from ..subjects.stand_ins import differs
from .candidates import Candidate, other_word
from .facts import Facts, facts_of, read_densely
from .places import Place
from .versions import Version, bound_of, close, near_entries, roughly

BROKEN = (SpecError, ValueError, IndexError, TypeError, ArithmeticError)
"""What an evaluation of changed lines may raise."""


class Stance(Enum):
    """How a candidate stands to what a subject returned on a call."""

    SILENT = "silent"
    """Nothing tells it from the definition, nor the subject from either."""
    AGREES = "agrees"
    """It tells itself from the definition, and the subject with it."""
    DIFFERS = "differs"


class Observation:
    """One call, as the definition and candidates have it, and as the subject answers it, which is asked when needed."""

    def __init__(self, trial: Trial, settled: Settled, grade: Grade, names: Collection[str] = ()) -> None:
        """Bounds are those of the grade; with `names`, only these outputs are looked at."""
        self.trial, self.settled, self.grade = trial, settled, grade
        self.mechanism, self.dtype = trial.mechanism, trial.bench.dtype
        self.names = [n for n in self.mechanism.outputs if n not in self.mechanism.random and (not names or n in names)]
        self.entries = trial.sample.entries
        self._latest: tuple[Candidate, Mapping[str, Any] | None] | None = None
        self._stances: dict[Candidate, Stance] = {}
        self._telling: dict[Candidate, bool] = {}
        self._like: dict[tuple[Candidate, frozenset[str]], bool] = {}

    @property
    def key(self) -> tuple[Any, ...]:
        """By which two observations are known to be of the same call."""
        return self.mechanism.name, self.trial.sample.key, self.settled.key

    def at(self, grade: Grade) -> Observation:
        """The same call under another grade."""
        return Observation(self.trial, self.settled, grade, self.names)

    def answered(self) -> bool:
        """Ask the subject; whether it has returned something to compare."""
        try:
            reply = self.trial.reply(self.settled)
            if any(name not in reply.outputs for name in self.names):
                self.names = [name for name in self.names if name in reply.outputs]
                self._stances, self._telling, self._like = {}, {}, {}
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
        radius = self.trial.frames.bound(name, self.settled, self.grade)[1]
        return np.where(np.isnan(radius), np.inf, radius)

    @cached_property
    def wrong(self) -> frozenset[str]:
        """The outputs that are not what the definition gives."""
        exact = self.exact
        return frozenset(n for n in self.names if not self._near(n, exact.values[n], self.outputs[n], (exact,)))

    @property
    def right(self) -> bool:
        """Whether the subject returned what the definition gives."""
        return not self.wrong

    def stance(self, candidate: Candidate) -> Stance:
        """How a candidate stands to the subject here, which several steps of a search ask."""
        if candidate not in self._stances:
            self._stances[candidate] = self._stance(candidate)
        return self._stances[candidate]

    def _stance(self, candidate: Candidate) -> Stance:
        """Where a candidate cannot be run, it differs, for the subject has answered."""
        version = self.version(candidate)
        if version is None:
            return Stance.SILENT if candidate.function and self.right else Stance.DIFFERS
        if version is self.exact:
            return Stance.SILENT if self.right else Stance.DIFFERS
        tells = self.tells(candidate)
        guarding = bool(candidate.changes or candidate.function)  # a word that asks for NaN is not followed with zeros
        if self.returned(version) or (guarding and self.guarded(version)):
            explains = bool(candidate.words) and not self.right  # another word may leave open what the subject returned
            agrees = explains or (tells and not self.right and self.says(version))
            return Stance.AGREES if agrees else Stance.SILENT
        return Stance.DIFFERS if tells or not self.right else Stance.SILENT

    def tells(self, candidate: Candidate) -> bool:
        """Whether a candidate gives something else than the definition."""
        if candidate not in self._telling:
            self._telling[candidate] = self._tells(candidate)
        return self._telling[candidate]

    def _tells(self, candidate: Candidate) -> bool:
        version = self.version(candidate)
        if version is None or version is self.exact:
            return version is None
        return not all(
            self._near(name, version.values[name], self.exact.values[name], (self.exact,), version)
            for name in self.names
        )

    def apart(self, one: Candidate, other: Candidate) -> bool:
        """Whether two candidates give different outputs."""
        first, second = self.version(one), self.version(other)
        if first is None or second is None:
            return first is not second
        return not self.same(first, second)

    def says(self, version: Version) -> bool:
        """Whether the bounds of a version are such that they tell the subject from the definition where it is wrong.

        What is in doubt everywhere, as a choice among equals is, agrees with anything.
        """
        for name in self.wrong:
            x, y, exact = version.values[name], self.outputs[name], self.exact
            if name in self.mechanism.normal_form or not np.shape(x) == np.shape(y) == np.shape(exact.values[name]):
                return True
            x, y, z = (np.asarray(part, float) for part in (x, y, exact.values[name]))
            own = self._own(name, x, y)
            wrong = ~near_entries(z, y, exact.radius(name) + own)
            if 2 * (wrong & near_entries(x, y, own)).sum() >= wrong.sum():
                return True
            with np.errstate(all="ignore"):
                sharp = ~(version.radius(name) >= np.abs(y - z))
            if 2 * (wrong & sharp).sum() >= wrong.sum():
                return True
        return False

    # Comparing

    def returned(self, version: Version) -> bool:
        """Whether the subject returned what a version gives."""
        return all(self._near(name, version.values[name], self.outputs[name], (version,)) for name in self.names)

    def guarded(self, version: Version) -> bool:
        """Whether the subject returned what a version gives, but zero where that is NaN, as a guard of 0 / 0 has it."""
        if self.right or not any(np.isnan(np.asarray(x, float)).any() for x in version.values.values()):
            return False
        if any(np.shape(version.values[n]) != np.shape(self.outputs[n]) for n in self.names):
            return False
        with np.errstate(all="ignore"):
            zero = {n: np.isnan(version.values[n]) & (np.asarray(self.outputs[n], float) == 0) for n in self.names}
        values = {n: np.where(zero[n], 0.0, version.values[n]) for n in self.names}
        return self.returned(Version(values, lambda n: np.where(zero[n], 0.0, version.radius(n))))

    def same(self, one: Version, other: Version) -> bool:
        """Whether nothing tells two versions apart."""
        if one is other:
            return True
        return all(self._near(name, one.values[name], other.values[name], (one, other)) for name in self.names)

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

    def resembles(self, candidate: Candidate, outputs: Collection[str] = (), place: Place | None = None) -> bool:
        """Whether what a candidate gives comes near what the subject returned, roughly.

        With `outputs`, these alone are looked at; with a `place`, it shows there alone.
        """
        if place is not None:
            return self._resembles(candidate, outputs, place)
        key = candidate, frozenset(outputs)
        if key not in self._like:
            self._like[key] = self._resembles(candidate, outputs, None)
        return self._like[key]

    def _resembles(self, candidate: Candidate, outputs: Collection[str], place: Place | None) -> bool:
        """Whether a candidate comes near; of what candidates give, that of the last one is kept."""
        if candidate.where is not None and not candidate.where.holds(self.facts):
            return False
        if self._latest is None or self._latest[0] is not candidate:
            try:
                self._latest = candidate, self._run(candidate)
            except BROKEN:
                self._latest = candidate, None
        values = self._latest[1]
        if values is None or values is SAME:
            return False
        values = values if place is None else self._mixed(values, place)
        names = [n for n in self.names if not outputs or n in outputs]
        return all(roughly(values[n], self.outputs[n]) for n in names) and all(
            self._nearer(n, values[n]) for n in names if n in self.wrong and n not in self.mechanism.normal_form
        )

    def _nearer(self, name: str, x: Any) -> bool:
        """Whether values leave at most half of what is between the definition and the subject where that is wrong."""
        wrong, off = self._off[name]
        with np.errstate(all="ignore"):
            left = np.abs(np.asarray(x, float) - np.asarray(self.outputs[name], float))
            return not 2 * np.sum(left, where=wrong & ~np.isnan(left)) > off

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

    # Running candidates

    def version(self, candidate: Candidate) -> Version | None:
        """What a candidate gives: the definition's own where that is the same, None where it cannot be run."""
        if candidate.each:
            return self._of_each(candidate.each)
        key = ("candidate", self.mechanism.name, candidate.name, *self.names, *self._words, self.settled.key)
        if key not in self.trial.sample.passing:
            run = self._run if candidate.function is None else self._call
            made = self._speaks(candidate) and (candidate.where is None or candidate.where.holds(self.facts))
            try:
                self.trial.sample.passing[key] = run(candidate) if made else SAME
            except BROKEN:
                self.trial.sample.passing[key] = None
        values = self.trial.sample.passing[key]
        if values is None:
            return None
        return (
            self.exact if values is SAME else Version(values, lambda name: self._radius(candidate, name, values[name]))
        )

    def _speaks(self, candidate: Candidate) -> bool:
        """Whether this mechanism has what a candidate is about; what another one adds is not given in its calls.

        Lines of an operator that its definition calls, whose names have a dot, have what that operator has.
        """
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

    @cached_property
    def facts(self) -> Facts:
        """What is known of the call beside its arrays."""
        return replace(facts_of(self.trial.sample, self.settled.values), matters=self.matters)

    def matters(self, convention: str) -> bool:
        """Whether another word of a convention gives something else."""
        words = self.mechanism.conventions.get(convention, {})
        own = self.trial.bench.words.get(convention)
        return any(self.tells(other_word(convention, word, says)) for word, says in words.items() if word != own)

    def _run(self, candidate: Candidate) -> Mapping[str, Any]:
        words = {**self.trial.bench.words, **candidate.words}
        base = self._unchanged(words, None)
        frame = self._changed(candidate, base)
        if candidate.dense:
            if all(self._dense(name) is self.settled.values[name] for name in candidate.dense):
                return SAME
        elif not candidate.words and not differs(frame, base):
            return SAME
        shows = [name for name in self.names if not candidate.only or name in candidate.only]
        found = {name: np.asarray(x) for name, x in frame.outputs(*shows).items()}
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
        if candidate.dense:
            values = {**base.values, **{name: self._dense(name) for name in candidate.dense}}
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

    def _unchanged(self, words: Mapping[str, str], grade: Grade | None) -> Frame:
        """The definition under some words: exact, with the range of the arithmetic, or with the bounds of a grade."""
        key = ("unchanged", self.mechanism.name, tuple(words.values()), self.settled.key, grade and grade.name)
        if key not in self.trial.sample.passing:
            values = {**self.settled.values, **words}
            if grade is None:
                frame = Frame(self.mechanism, values, overflow=LADDER[self.dtype][0].arithmetic)
            else:
                moved = {n: Number.within(values[n], x, grade=grade) for n, x in self.settled.errors.items()}
                frame = Frame(self.mechanism, {**values, **moved}, grade=grade, dtype=self.dtype)
            self.trial.sample.passing[key] = frame
        return self.trial.sample.passing[key]


SAME: Mapping[str, Any] = {}
"""What a candidate gives that gives the same as the definition, in every line."""
