"""The definition on a sample: on the case itself, and on the further calls of laws.

What does not depend on the subject is computed once for all subjects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from ..cases.samples import Sample
from ..mechanisms.definition import Frame, refused
from ..mechanisms.worded import Worded
from ..numerics.comparing import recording
from ..numerics.grades import FP64, Grade
from ..numerics.numbers import Number
from .bench import Bench
from .margins import largest_score
from .settling import Settled

SETTLED = "settled"
"""Under which the call of the case itself is kept."""
SHAPES = 1 << 12
"""Shapes of outputs that are remembered at a time."""


class Shapes(dict[tuple[Any, ...], tuple[int, ...]]):
    """The shapes of outputs, which the samples of a library have in common."""


class Frames:
    """The definition on the calls of a sample. What it says is kept with the sample."""

    def __init__(self, bench: Bench, sample: Sample) -> None:
        self.bench, self.mechanism, self.cache = bench, bench.mechanism, sample.cache
        self.passing = sample.passing
        if SETTLED not in sample.cache:
            sample.cache[SETTLED] = Settled(sample.values)
        self.base: Settled = sample.cache[SETTLED]

    def _key(self, kind: str, settled: Settled, *more: Any) -> tuple[Any, ...]:
        return kind, self.mechanism.name, self.bench.words_key, settled.key, *more

    def _frame(self, settled: Settled, grade: Grade | None) -> Frame:
        values = {**settled.values, **self.bench.words}
        if grade is not None:
            for name, moved in settled.errors.items():
                values[name] = Number.within(values[name], moved, grade=grade)
        if settled.key:
            return self.on_case(grade).on(values)
        return Frame(self.mechanism, values, grade=grade, dtype=self.bench.dtype)

    def on_case(self, grade: Grade | None = None) -> Frame:
        """The definition on the case itself, whose lines laws may name; under a grade, with bounds."""
        key = self._key("frame", self.base, grade and grade.name)
        if key not in self.passing:
            self.passing[key] = self._frame(self.base, grade)
        return self.passing[key]

    def _call_frame(self, settled: Settled, grade: Grade | None) -> Frame:
        """The definition on a call; beside the case itself the last call is kept, for outputs have lines in common."""
        if not settled.key:
            return self.on_case(grade)
        key = self._key("frame of the last call", self.base, grade and grade.name)
        known, frame = self.passing.get(key, ((), None))
        if known != settled.key:
            frame = self._frame(settled, grade)
            self.passing[key] = (settled.key, frame)
        return frame

    def exact(self, name: str, settled: Settled) -> Any:
        """An output as the definition has it."""
        return self._under_words(("exact", settled.key, name), lambda: self._exact(name, settled))

    def _exact(self, name: str, settled: Settled) -> tuple[Collection[str], Any]:
        frame = self._call_frame(settled, None)
        x = frame.outputs(name)[name]
        return frame.words_asked, x

    def version(self, words: Mapping[str, str], grade: Grade | None = None) -> dict[str, Any]:
        """The outputs on the case itself, in their normal form, under other words than those of the subject."""
        kind = "exact" if grade is None else f"as in {grade.name}"
        worded = functools.cache(lambda: self._worded(words, grade))  # outputs have lines in common

        def evaluated(name: str) -> tuple[Collection[str], Any]:
            x = worded().outputs(name)[name]
            return worded().words_asked, x

        outputs = {
            name: self._under_words((kind, self.base.key, name), functools.partial(evaluated, name), words)
            for name in self.mechanism.outputs
        }
        return {name: self.normal(name, x) for name, x in outputs.items()}

    def _worded(self, words: Mapping[str, str], grade: Grade | None) -> Worded:
        """The definition under words, sharing what it can with that under the first ones that were asked for."""
        key = ("worded", self.mechanism.name, grade and grade.name)
        if key not in self.passing:
            first = Worded(self.mechanism, {**self.base.values, **words}, grade=grade, dtype=self.bench.dtype)
            first.outputs()
            self.passing[key] = first
        known: Worded = self.passing[key]
        return known.under(words)

    def bound(self, name: str, settled: Settled, grade: Grade) -> tuple[Any, Any, Any]:
        """An output and its error under a grade: likely and worst."""
        return self._under_words(("bound", settled.key, name, grade.name), lambda: self._bound(name, settled, grade))

    def _bound(self, name: str, settled: Settled, grade: Grade) -> tuple[Collection[str], tuple[Any, Any, Any]]:
        frame = self._call_frame(settled, grade)
        with recording():  # what the definition compares is not a comparison of a law
            x = frame.outputs(name)[name]
        if not isinstance(x, Number):
            x = Number(x, grade=grade)
        known = np.isfinite(x.value) | ~np.isfinite(x.radius)
        twice = 2.0 if grade is FP64 else 1.0  # the definition was computed in double precision, too
        moved = displaced(x, self.exact(name, settled))
        likely, worst = (np.where(known, twice * part + moved, 0.0) for part in (x.radius, x.worst))
        return frame.words_asked, (x.value, likely, worst)

    def refused(self, settled: Settled) -> str | None:
        """Why the definition refuses a call, or None where it does not."""
        key = self._key("refused", settled)
        if key not in self.cache:
            self.cache[key] = refused(self.mechanism, {**settled.values, **self.bench.words})
        found: str | None = self.cache[key]
        return found

    def _under_words(
        self,
        key: tuple[Any, ...],
        evaluate: Callable[[], tuple[Collection[str], Any]],
        words: Mapping[str, str] | None = None,
    ) -> Any:
        """What an evaluation gave under words, else the subject's, or under others of which it asks none.

        An evaluation tells the conventions that it asks for, and its result.
        """
        key, words = (self.mechanism.name, *key), self.bench.words if words is None else words
        self.cache.load()
        found = self.cache.get(key, ())
        for asked, x in found:
            if all(words[convention] == word for convention, word in asked.items()):
                return x
        asks, x = evaluate()
        asked = {convention: words[convention] for convention in asks if convention in words}
        self.cache[key] = (*found, (asked, x))
        return x

    def score(self) -> float:
        """The largest score on the case itself; see `largest_score`."""
        key = self._key("score", self.base)
        if key not in self.cache:
            self.cache[key] = largest_score(self.on_case())
        found: float = self.cache[key]
        return found

    def shape(self, name: str, settled: Settled) -> tuple[int, ...]:
        """The shape that an output has for inputs of these shapes."""
        own = (self.mechanism.name, name)
        if own not in settled.shapes:
            settled.shapes[own] = self._shape(name, settled)
        return settled.shapes[own]

    def _shape(self, name: str, settled: Settled) -> tuple[int, ...]:
        shapes = tuple(getattr(settled.values[n], "shape", ()) for n in self.mechanism.inputs)
        options = [settled.values[n] for n in self.mechanism.options]
        if self.mechanism.required:  # beside inputs, only words and integers say how long something is
            options = [x if type(x) in (int, str) else None for x in options]
        key = (self.mechanism.name, self.mechanism.digest, name, shapes, *options)
        known = self.mechanism.kept(Shapes)
        if key not in known:
            if len(known) >= SHAPES:
                known.clear()
            known[key] = np.shape(self.exact(name, settled))
        return known[key]

    def normal(self, name: str, x: Any) -> Any:
        """An output in its normal form, which is what is compared of it."""
        form = self.mechanism.normal_form.get(name)
        return x if form is None else form(_With(self.on_case(), {name: x}))


def displaced(x: Number, exact: Any) -> Any:
    """How far a choice in doubt has taken a value from the exact one, which is what outputs are compared with."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(x.value - np.asarray(exact, float))
    return np.where(distance > x.radius / 4, distance, 0.0)


class _With:
    """A frame in which some names have another value."""

    grade: Grade | None = None

    def __init__(self, frame: Frame, values: Mapping[str, Any]) -> None:
        self.frame, self.values, self.dtype = frame, values, frame.dtype
        self.word, self.operator, self.output, self.source = frame.word, frame.operator, frame.output, frame.source

    def __getitem__(self, name: str) -> Any:
        return self.values[name] if name in self.values else self.frame[name]
