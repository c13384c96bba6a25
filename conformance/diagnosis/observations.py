"""How candidates compare with what a subject returned, call by call.

Within the bounds of what it gives a candidate agrees, and what it leaves unspecified, or cannot determine, agrees with
anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from ..judging.settling import Settled
from ..judging.trial import Trial
from ..numerics.formats import KINDS, NUMBER
from ..numerics.grades import Grade
from .candidates import Candidate, other_word
from .facts import Facts
from .places import Place
from .running import BROKEN, SAME, Running
from .versions import Version, near_entries, roughly

LUCKY = 8
"""Entries in which another choice among equals than that of the definition does not turn out as that by chance."""


class Stance(Enum):
    """How a candidate stands to what a subject returned on a call."""

    SILENT = "silent"
    """Nothing tells it from the definition, nor the subject from either."""
    AGREES = "agrees"
    """It tells itself from the definition, and the subject with it."""
    DIFFERS = "differs"


class Observation(Running):
    """One call, as the definition and candidates have it, and as the subject answers it, which is asked when needed."""

    def __init__(self, trial: Trial, settled: Settled, grade: Grade, names: Collection[str] = ()) -> None:
        super().__init__(trial, settled, grade, names)
        self._latest: tuple[Candidate, Mapping[str, Any] | None] | None = None
        self._stances: dict[Candidate, Stance] = {}
        self._telling: dict[Candidate, bool] = {}
        self._like: dict[tuple[Candidate, frozenset[str]], bool] = {}

    def at(self, grade: Grade) -> Observation:
        """The same call under another grade."""
        return Observation(self.trial, self.settled, grade, self.names)

    def answered(self) -> bool:
        """Ask the subject; whether it has returned something to compare."""
        names = self.names
        found = super().answered()
        if names is not self.names:
            self._stances, self._telling, self._like = {}, {}, {}
        return found

    @cached_property
    def facts(self) -> Facts:
        """What is known of the call beside its arrays."""
        return replace(super().facts, matters=self.matters)

    def matters(self, convention: str) -> bool:
        """Whether another word of a convention gives something else."""
        words = self.mechanism.conventions.get(convention, {})
        own = self.trial.bench.words.get(convention)
        return any(self.tells(other_word(convention, word, says)) for word, says in words.items() if word != own)

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
            return Stance.SILENT if self.right or self.left_open(candidate) else Stance.DIFFERS
        tells = self.tells(candidate)
        guarding = bool(candidate.changes or candidate.function)  # a word that asks for NaN is not followed with zeros
        if self.returned(version) or (guarding and self.guarded(version)):
            explains = bool(candidate.words) and not self.right  # another word may leave open what the subject returned
            agrees = explains or (tells and not self.right and self.says(version))
            by_luck = self.right and not candidate.words and self.by_luck(version)
            return Stance.AGREES if agrees else Stance.DIFFERS if by_luck else Stance.SILENT
        return Stance.DIFFERS if tells or not self.right else Stance.SILENT

    def left_open(self, candidate: Candidate) -> bool:
        """Whether a candidate gives the same as the definition, and may as well give what the subject returned.

        One that cuts codes off is one step from the nearest by an error of rounding where that is no error of its own.
        """
        if not candidate.changes or any(self.mechanism.dtypes.get(name) not in (*KINDS, NUMBER) for name in self.wrong):
            return False
        own = self.exact.values
        return self.speaks(candidate) and self.returned(Version(own, lambda n: self._radius(candidate, n, own[n])))

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

    def by_luck(self, version: Version) -> bool:
        """Whether a version that leaves a choice among equals open has another than the definition in many entries.

        What makes it may return what the definition gives, but hardly so in all of them.
        """
        for name in self.names:
            x, y = (np.asarray(one.values[name], float) for one in (version, self.exact))
            chosen = name in self.mechanism.random and x.shape == y.shape
            if chosen and np.sum(np.abs(x - y) > self.exact.radius(name)) >= LUCKY:
                return True
        return False

    def returned(self, version: Version) -> bool:
        """Whether the subject returned what a version gives."""
        return all(self._near(name, version.values[name], self.outputs[name], (version,)) for name in self.names)

    @property
    def is_spoilt(self) -> bool:
        """Whether some of what the subject returned is NaN, and some is not."""
        nan = np.concatenate([np.isnan(np.ravel(np.asarray(self.outputs[name], float))) for name in self.names])
        return bool(nan.any() and not nan.all())

    def returned_but_for_nan(self, candidate: Candidate) -> bool:
        """Whether the subject returned what a candidate gives, but for entries that are NaN."""
        version = self.version(candidate)
        if version is None or any(np.shape(version.values[n]) != np.shape(self.outputs[n]) for n in self.names):
            return False
        given = {n: np.asarray(self.outputs[n], float) for n in self.names}
        filled = {n: np.where(np.isnan(x), version.values[n], x) for n, x in given.items()}
        return all(self._near(name, version.values[name], filled[name], (version,)) for name in self.names)

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
        if not self.speaks(candidate):
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
