"""The names that a law can use: inputs, outputs, and its own draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cases.samples import DrawSource
from ..errors import SpecError
from ..language.draws import Source
from ..language.scopes import CallSite
from ..mechanisms.definition import Frame
from ..mechanisms.mechanism import Law
from ..numerics.comparing import recording
from ..numerics.grades import Grade, result_format
from ..numerics.numbers import Number
from ..numerics.streams import pick
from ..numerics.truths import truth
from .settling import Settled
from .trial import Trial

FALSE_ALARM = 1e-14
"""The chance that one `likely` refutes what is right; over all cases and dtypes of a nightly run it is below 1e-9."""


class LawEnvironment:
    """The environment of one law in one trial, at one grade. Its arithmetic is exact but for double precision."""

    grade: Grade | None = None

    def __init__(self, trial: Trial, law: Law, grade: Grade | None, worst: bool = False) -> None:
        self.trial, self.law, self.precision, self.worst = trial, law, grade, worst
        self.dtype = trial.bench.dtype
        self.false_alarm = FALSE_ALARM
        self.claiming = False
        """Whether the claim itself is evaluated: there an operator is what a correct implementation may return."""
        self._given: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self.law.given:
            return self.given(name)
        if name in self.trial.sample.values:
            return self.trial.sample.values[name]
        if name in self.trial.bench.words:
            return self.trial.bench.words[name]
        frame = self.claimed() if self.trial.mechanism.random else None
        return self.trial.frames.on_case()[name] if frame is None else self.allowed(frame[name])

    @property
    def concerned(self) -> bool:
        """Whether the case is one of which the law speaks; found once, where that does not depend on the subject."""
        law, cache = self.law, self.trial.sample.cache
        if law.when.asks or law.when.uses & law.asking:
            return truth(law.when(self)).sure
        key = ("concerned", law.name, self.trial.bench.words_key)
        if key not in cache:
            cache[key] = truth(law.when(self)).sure
        return cache[key]

    def given(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        key = ("given", self.law.name, self.trial.bench.words_key, name)
        if name not in self.law.asking and key in self.trial.sample.cache:
            drawn = self.trial.sample.cache[key]
        else:
            literal = self.trial.sample.case.literals.get(f"{self.law.name}.{name}")
            drawn = self.law.given[name](_Giving(self, name)) if literal is None else np.asarray(literal)
        if name not in self.law.asking:  # it does not depend on the subject, and serves all of them
            self.trial.sample.cache[key] = drawn
        self._given[name] = drawn
        return drawn

    def output(self, name: str, site: CallSite | None) -> Any:
        return self.trial.number(name, self.settled(site), self.precision, worst=self.worst, fair=self.trial.fair)

    def settled(self, site: CallSite | None) -> Settled:
        trial = self.trial
        if site is None:
            return trial.base
        if site.uses & (self.law.asking | set(trial.mechanism.outputs)):
            return trial.settle(site(self))
        key = ("site", self.law.name, trial.bench.words_key, site.text)
        if key not in trial.sample.cache:
            trial.sample.cache[key] = trial.settle(site(self))
        return trial.sample.cache[key]

    def word(self, convention: str) -> str:
        return self[convention]

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        frame = self.claimed()
        if frame is None:
            return self.trial.frames.on_case().operator(name, arguments)
        with recording():  # what a definition compares is not a claim
            return self.allowed(frame.operator(name, arguments))

    def claimed(self) -> Frame | None:
        """The definition under the claimed precision, for what a claim compares with outputs; None elsewhere."""
        return self.trial.frames.on_case(self.precision) if self.claiming and self.precision is not None else None

    def allowed(self, x: Any) -> Any:
        """A number of the definition with its bound, and nothing of how that came about.

        A random output of zero has no bound, for it may have been dropped; where it was too small for the dtype, the
        number that it is compared with says so.
        """
        if not isinstance(x, Number):
            return x
        radius = x.worst if self.worst else x.radius
        if self.trial.mechanism.random and self.precision is not None and not x.exact:
            radius = radius + np.where(x.value == 0, 0.0, result_format(self.dtype, self.precision).tiny)
        return Number.within(x.value, radius)

    def source(self, ordinal: int) -> Source:
        raise SpecError("a claim cannot draw; draw under `given`")


class _Giving:
    """The environment of one `given`: the law's, with draws."""

    grade: Grade | None = None

    def __init__(self, law: LawEnvironment, name: str) -> None:
        self.law, self.name, self.dtype = law, name, law.dtype
        self.false_alarm = law.false_alarm
        self.output, self.operator, self.word = law.output, law.operator, law.word

    def __getitem__(self, name: str) -> Any:
        return self.law[name]

    def source(self, ordinal: int) -> Source:
        return _LawSource(self.law.trial.sample, f"{self.law.law.name}.{self.name}.{ordinal}")


class _LawSource(DrawSource):
    """The source of a law's own draw: its picks are of the sample's stream unless a stored case says otherwise."""

    def pick(self, count: int) -> int:
        stored = self.sample.case.picks.get(self.key)
        return pick(count, self.sample.case.seed, self.key) if stored is None else stored % max(count, 1)
