"""One sample against one subject: the environment in which laws are evaluated.

An output of the subject enters a law as a number with a bound: what the definition, run on the inputs of that very call
at a claimed precision, says that rounding may do, and the rounding of the result.
Equal calls are run once, and what does not depend on the subject is computed once for all subjects.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.samples import DrawSource, Sample, unmet
from ..errors import SpecError, UsageError
from ..execution.calling import Call, Fault, Reply
from ..execution.declarations import allows
from ..language.draws import Source
from ..language.scopes import CallSite, Values
from ..mechanisms.definition import Frame, refused, sizes_of
from ..mechanisms.mechanism import Law, Mechanism
from ..numerics import budget
from ..numerics.formats import FORMATS, KINDS, half_unit, rounded
from ..numerics.grades import FP64, Grade, result_format
from ..numerics.numbers import Number, finite, recording, value
from ..numerics.streams import pick
from ..numerics.truths import Truth
from ..subjects.subject import Subject
from .pace import Pace, pace_of, work

FAR = 1 / 16
"""The bound of an entry that is far from the definition, as a share of the largest entry."""

FALSE_ALARM = 1e-14
"""The chance that one `likely` refutes what is right; over all cases and dtypes of a nightly run it is below 1e-9."""


SHAPES = 1 << 12
"""Shapes of outputs that are remembered at a time."""
_SHAPES: dict[tuple[Any, ...], tuple[int, ...]] = {}
"""The shapes of outputs, which every sample has in common."""


class Declined(Exception):  # noqa: N818 - an answer
    """The subject does not claim what a call asks for."""


class Faulted(Exception):  # noqa: N818 - an answer
    """A call gave no result: it raised, or returned what is not a result."""

    def __init__(self, fault: Fault, settled: Settled) -> None:
        super().__init__(fault.says)
        self.fault, self.settled = fault, settled


class Slow(Declined):
    """There is no time for a call; the subject is not stuck."""


class Stray(Exception):  # noqa: N818 - an answer
    """An output is NaN where the definition has a number."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A call as a subject will see it: every input rounded, every option resolved."""

    values: Mapping[str, Any]
    errors: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """What rounding moved, for inputs that a law computed; the definition is asked about what was meant."""
    key: tuple[Any, ...] = ()
    """Equal for equal calls; empty for the case itself."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds beside the arrays of the case itself."""
        replaced = [self.values[name] for name, *_ in self.key] + [*self.errors.values()]
        return sum(x.nbytes for x in replaced if isinstance(x, np.ndarray))


@dataclass(frozen=True, slots=True)
class Bench:
    """A subject on a device, with the words of all conventions, at one dtype of one mechanism."""

    subject: Subject
    mechanism: Mechanism
    dtype: str
    device: str
    words: Mapping[str, str]
    faults: Counter[str] = field(default_factory=Counter)
    """How many calls have ended in each kind of fault."""

    @property
    def pace(self) -> Pace:
        """How fast the subject is."""
        return pace_of(self.subject, self.dtype, self.device)

    @property
    def words_key(self) -> tuple[str, ...]:
        return tuple(self.words[c] for c in self.mechanism.conventions)


class Trial:
    """A sample on a bench. Replies are kept; what belongs to the sample alone is kept with it."""

    def __init__(self, bench: Bench, sample: Sample, *, fair: bool = True) -> None:
        """With `fair`, laws give a wide bound to entries that are far from the definition; see `number`."""
        self.bench, self.sample, self.mechanism, self.fair = bench, sample, bench.mechanism, fair
        self.cache = sample.cache
        self.base = Settled(sample.values)
        self.replies: dict[tuple[Any, ...], Reply] = {}
        self.spent: list[Reply] = []
        """Replies that are no longer kept, without their outputs."""
        self.widened = False
        """Whether a bound was made wide, because an output is far from the definition."""
        self._numbers: dict[tuple[Any, ...], Any] = {}

    def release(self) -> None:
        """Let go of what was returned, but for the case itself: hardly any other call is made by two laws."""
        self.spent += [replace(reply, outputs={}) for key, reply in self.replies.items() if key]
        self.replies = {key: reply for key, reply in self.replies.items() if not key}
        self._numbers = {}

    # Calls

    def settle(self, replaced: Mapping[str, Any]) -> Settled:
        """The call with some inputs and options replaced."""
        values, errors, key = dict(self.sample.values), {}, []
        for name, x in replaced.items():
            plain = self._plain(name, x, errors)
            if same(plain, self.sample.values[name]) and name not in errors:
                continue
            values[name] = plain
            key.append((name, _digest(plain), _digest(errors.get(name))))
        return Settled(values, errors, tuple(sorted(key)))

    def _plain(self, name: str, x: Any, errors: dict[str, NDArray[np.float64]]) -> Any:
        if isinstance(x, Truth):
            if not np.array_equal(x.can, x.must):
                raise SpecError(f"{name} cannot be replaced by an undecided boolean")
            return np.asarray(x.must)
        plain = self.mechanism.as_drawn(name, value(x))
        if name in self.mechanism.required and self.mechanism.dtypes.get(name) in KINDS:
            plain = _whole_numbers(plain, name)
        if name not in self.mechanism.inputs or not isinstance(plain, np.ndarray) or plain.dtype.kind != "f":
            single = isinstance(plain, np.generic | np.ndarray) and np.ndim(plain) == 0
            return plain.item() if single and name not in self.mechanism.required else plain
        near = rounded(plain, FORMATS[self.mechanism.dtype_of(name, self.bench.dtype)])
        moved = np.abs(np.where(np.isfinite(near), plain - near, 0.0))
        if isinstance(x, Number):
            moved = moved + x.radius
        if np.any(moved):
            errors[name] = moved
        return near

    def call(self, settled: Settled, *, poisoned: bool = False, wrong: bool = False) -> Call:
        """The call in terms of what the subject claims; `Declined` where it claims too little.

        One that is `wrong` is to be refused, whatever the subject requires of those that it takes.
        """
        claims, m = self.bench.subject.claims, self.mechanism
        inputs, options = {}, {}
        for name in m.inputs:
            x = settled.values[name]
            if name not in m.required and not isinstance(x, np.ndarray):
                if same(x, m.defaults.get(name)):
                    continue
                x = np.full((1, 1), x)
            if name not in m.required and name not in claims.names:
                raise Declined(f"does not take {name}")
            inputs[name] = x
        for name in m.options:
            x = settled.values[name]
            if name in claims.fixed and not same(x, claims.fixed[name]):
                raise Declined(f"takes {name} = {claims.fixed[name]} only")
            at_default = name in m.defaults and same(x, m.defaults[name])
            if at_default and name not in claims.always:
                continue
            if name not in claims.names and name not in claims.fixed:
                raise Declined(f"does not take {name}")
            if name in claims.names:
                options[name] = m.passed(name, x)
        if (claims.limits or claims.requires) and settled.key:
            self._check_bounds(settled, wrong=wrong)
        return Call(inputs, options, self.bench.dtype, self.bench.device, self.sample.layout, poisoned)

    def _check_bounds(self, settled: Settled, *, wrong: bool) -> None:
        """`Declined` for a call beyond the declared limits, or one that does not meet the declared conditions."""
        claims, m = self.bench.subject.claims, self.mechanism
        found = {**settled.values, **sizes_of(m, settled.values)} if claims.limits else {}
        for name, allowed in claims.limits.items():
            if name in found and not allows(allowed, found[name]):
                raise Declined(f"takes no {name} = {found[name]}")
        if wrong or not claims.requires:
            return
        found = found or {**settled.values, **sizes_of(m, settled.values)}
        try:
            with np.errstate(all="ignore"), budget.metered():
                lacking = unmet(claims, Values(found, self.bench.dtype))
        except UsageError as error:  # a law may ask for shapes that a condition has nothing to say of
            raise Declined(str(error)) from None
        if lacking is not None:
            raise Declined(f"requires {lacking.text}")

    def reply(self, settled: Settled) -> Reply:
        """What the subject returned; `Declined` or `Faulted` where it returned nothing."""
        reply = self.replies.get(settled.key)
        if reply is None:
            reply = self.replies[settled.key] = self._answer(settled)
            self.bench.faults.update([reply.fault.kind] if reply.fault else [])
        if reply.fault is not None:
            if reply.fault.kind == "slow":
                raise Slow(reply.fault.says)
            if reply.fault.kind == "unsupported":
                raise Declined(reply.fault.says)
            raise Faulted(reply.fault, settled)
        return reply

    def _answer(self, settled: Settled) -> Reply:
        """What comes of a call, if there is time for it."""
        call, pace, subject = self.call(settled), self.bench.pace, self.bench.subject
        amount = work(self.mechanism, call, settled.values)
        if pace.too_large(amount):
            return Reply(fault=Fault("slow", pace.says))
        started = time.perf_counter()
        reply = subject.call(call)
        if reply.fault is None:
            pace.answer(amount, settled.values, time.perf_counter() - started)
        elif reply.fault.kind == "hung":
            seconds = time.perf_counter() - started
            return Reply(fault=pace.judged(reply.fault, amount, self.sample, subject, self._call_of, seconds))
        return reply

    def _call_of(self, sample: Sample) -> Call | None:
        """The call of another case; None where the subject does not claim it."""
        trial = Trial(self.bench, sample)
        try:
            return trial.call(trial.base)
        except Declined:
            return None

    @property
    def answered(self) -> bool:
        """Whether the subject takes the case itself."""
        try:
            self.reply(self.base)
        except (Declined, Faulted, SpecError):
            return False
        return True

    @property
    def silent(self) -> bool:
        """Whether the call of the case itself gives no result, and is not a refusal either."""
        try:
            self.reply(self.base)
        except Faulted:
            return True
        except (Declined, SpecError):
            pass
        return False

    # The definition, kept with the sample

    def _key(self, kind: str, settled: Settled, *more: Any) -> tuple[Any, ...]:
        return kind, self.mechanism.name, self.bench.words_key, settled.key, *more

    def _frame(self, settled: Settled, grade: Grade | None) -> Frame:
        values = {**settled.values, **self.bench.words}
        if grade is not None:
            for name, moved in settled.errors.items():
                values[name] = Number.within(values[name], moved, grade=grade)
        return Frame(self.mechanism, values, grade=grade, dtype=self.bench.dtype)

    def base_frame(self) -> Frame:
        """The definition on the case itself, whose lines laws may name."""
        key = self._key("frame", self.base)
        if key not in self.cache:
            self.cache[key] = self._frame(self.base, None)
        return self.cache[key]

    def graded_frame(self, grade: Grade) -> Frame:
        """The definition on the case itself under a grade."""
        key = self._key("frame", self.base, grade.name)
        if key not in self.cache:
            self.cache[key] = self._frame(self.base, grade)
        return self.cache[key]

    def _call_frame(self, settled: Settled, grade: Grade | None) -> Frame:
        """The definition on a call; beside the case itself the last call is kept, for outputs have lines in common."""
        if not settled.key:
            return self.base_frame() if grade is None else self.graded_frame(grade)
        key = self._key("frame of the last call", self.base, grade and grade.name)
        known, frame = self.cache.get(key, ((), None))
        if known != settled.key:
            frame = self._frame(settled, grade)
            self.cache[key] = (settled.key, frame)
        return frame

    def exact(self, name: str, settled: Settled) -> Any:
        """An output as the definition has it."""
        return self._under_words(("exact", settled.key, name), lambda: self._exact(name, settled))

    def _exact(self, name: str, settled: Settled) -> tuple[Frame, Any]:
        frame = self._call_frame(settled, None)
        return frame, frame.outputs(name)[name]

    def bound(self, name: str, settled: Settled, grade: Grade) -> tuple[Any, Any, Any]:
        """An output and its error under a grade: likely and worst."""
        return self._under_words(("bound", settled.key, name, grade.name), lambda: self._bound(name, settled, grade))

    def _bound(self, name: str, settled: Settled, grade: Grade) -> tuple[Frame, tuple[Any, Any, Any]]:
        frame = self._call_frame(settled, grade)
        with recording():  # what the definition compares is not a comparison of a law
            x = frame.outputs(name)[name]
        if not isinstance(x, Number):
            x = Number(x, grade=grade)
        known = np.isfinite(x.value) | ~np.isfinite(x.radius)
        twice = 2.0 if grade is FP64 else 1.0  # the definition was computed in double precision, too
        moved = self._moved(x, self.exact(name, settled))
        likely, worst = (np.where(known, twice * part + moved, 0.0) for part in (x.radius, x.worst))
        return frame, (x.value, likely, worst)

    def refused(self, settled: Settled) -> str | None:
        """Why the definition refuses a call, or None where it does not."""
        key = self._key("refused", settled)
        if key not in self.cache:
            self.cache[key] = refused(self.mechanism, {**settled.values, **self.bench.words})
        found: str | None = self.cache[key]
        return found

    def _under_words(self, key: tuple[Any, ...], evaluate: Callable[[], tuple[Frame, Any]]) -> Any:
        """What an evaluation gave, for this subject or for one that differs in words that it did not ask for."""
        key, words = (self.mechanism.name, *key), self.bench.words
        found = self.cache.get(key, ())
        for asked, x in found:
            if all(words[convention] == word for convention, word in asked.items()):
                return x
        frame, x = evaluate()
        asked = {convention: words[convention] for convention in frame.turned_on if convention in words}
        self.cache[key] = (*found, (asked, x))
        return x

    @staticmethod
    def _moved(x: Number, exact: Any) -> Any:
        """How far a choice in doubt has taken a value from the exact one, which is what outputs are compared with."""
        with np.errstate(invalid="ignore"):
            distance = np.abs(x.value - np.asarray(exact, float))
        return np.where(distance > x.radius / 4, distance, 0.0)

    def shape(self, name: str, settled: Settled) -> tuple[int, ...]:
        """The shape that an output has for inputs of these shapes."""
        shapes = tuple(getattr(settled.values[n], "shape", ()) for n in self.mechanism.inputs)
        options = [settled.values[n] for n in self.mechanism.options]
        if self.mechanism.required:  # beside inputs, only words and integers say how long something is
            options = [x for x in options if type(x) in (int, str)]
        key = (self.mechanism.name, self.mechanism.digest, name, shapes, *options)
        if key not in _SHAPES:
            if len(_SHAPES) >= SHAPES:
                _SHAPES.clear()
            _SHAPES[key] = np.shape(self.exact(name, settled))
        return _SHAPES[key]

    def normal(self, name: str, x: Any) -> Any:
        """An output in its normal form, which is what is compared of it."""
        form = self.mechanism.normal_form.get(name)
        return x if form is None else form(_With(self.base_frame(), {name: x}))

    # Outputs as numbers

    def observed(self, name: str, settled: Settled) -> NDArray[np.float64]:
        """What the subject returned as an output; one of the wrong shape is `Faulted`."""
        reply = self.reply(settled)
        y = reply.outputs.get(name)
        if y is None:
            raise Declined(f"does not return {name}")
        expected = self.shape(name, settled)
        if y.shape != expected:
            says = f"{name} has the shape {list(y.shape)}, not {list(expected)}"
            raise Faulted(Fault("misshapen", says), settled)
        return y

    def number(
        self, name: str, settled: Settled, grade: Grade | None, *, worst: bool = False, fair: bool = True
    ) -> Any:
        """An output with its bound; `Faulted` or `Stray` where it is none.

        Under no grade, nothing is allowed but the rounding of the result; nor is it where the output is random.
        With `worst`, the bound is that of the worst case in place of the likely one.
        A bound belongs to outputs near the definition; with `fair`, entries that are far from it get a wide one, so
        that a subject is not convicted of laws that it keeps.
        Where it gets the case itself right, that is not an excuse for the further calls of a law.
        """
        fair = fair and (not settled.key or self._lost(name, grade, worst))
        key = (name, settled.key, grade, worst, fair)
        if key not in self._numbers:
            y = self.observed(name, settled)
            if y.dtype.kind != "f" or self.mechanism.dtype_of(name, self.bench.dtype) in KINDS:
                self._numbers[key] = self._whole(y, name, settled, grade, worst)
            else:
                radius = self._radius(y, name, settled, grade, worst, fair)
                self._check_numbers(y, radius, name, settled)
                self._numbers[key] = Number.within(y, radius)
        return self._numbers[key]

    def _lost(self, name: str, grade: Grade | None, worst: bool) -> bool:
        """Whether an output of the case itself is far from the definition."""
        if grade is None or name in self.mechanism.random:
            return False
        try:
            tight, wide = (self.number(name, self.base, grade, worst=worst, fair=fair) for fair in (False, True))
        except Declined:  # only further calls have it, as the gradient of a bias that the case is without
            return False
        return isinstance(tight, Number) and bool(np.any(tight.radius != wide.radius))

    def _whole(self, y: NDArray[Any], name: str, settled: Settled, grade: Grade | None, worst: bool) -> Any:
        """Integers or booleans: exact, but for what the definition itself leaves in doubt."""
        if y.dtype.kind in "iu":
            y = y.astype(np.int64)  # laws compute with integers, and not in the type that holds them
        if y.dtype.kind == "b" or grade is None or name in self.mechanism.random:
            return y
        _, likely, certain = self.bound(name, settled, grade)
        radius = certain if worst else likely
        return Number.within(y.astype(np.float64), radius) if np.any(radius) else y

    def _check_numbers(self, y: NDArray[np.float64], radius: Any, name: str, settled: Settled) -> None:
        """NaN is nothing that a law may meet by accident: it is `Stray` where the definition has a number."""
        lost = np.isnan(y) & np.isfinite(radius)
        if lost.any() and name not in self.mechanism.random and not np.isnan(self.exact(name, settled))[lost].all():
            raise Stray(f"{name} is NaN where the definition has a number")

    def _radius(
        self, y: NDArray[np.float64], name: str, settled: Settled, grade: Grade | None, worst: bool, fair: bool
    ) -> Any:
        dtype = self.mechanism.dtype_of(name, self.bench.dtype)
        own = np.abs(finite(y))
        result = FORMATS[dtype] if grade is None else result_format(dtype, grade)
        if name in self.mechanism.random:
            return np.where(own > 0, half_unit(own, result), 0.0)  # what was dropped was not rounded
        if grade is None:
            return half_unit(own, result)
        x, likely, certain = self.bound(name, settled, grade)
        radius = certain if worst else likely
        reach = np.maximum(np.abs(finite(x)) + finite(radius), own)
        radius = radius + half_unit(reach, result)
        if fair:
            far = ~(np.abs(y - x) <= radius) & np.isfinite(y)
            if far.any():
                self.widened = True
                radius = np.where(far, np.maximum(radius, FAR * own.max(initial=0.0)), radius)
        return radius


class _With:
    """A frame in which some names have another value."""

    grade: Grade | None = None

    def __init__(self, frame: Frame, values: Mapping[str, Any]) -> None:
        self.frame, self.values, self.dtype = frame, values, frame.dtype
        self.word, self.operator, self.output, self.source = frame.word, frame.operator, frame.output, frame.source

    def __getitem__(self, name: str) -> Any:
        return self.values[name] if name in self.values else self.frame[name]


class Tracing(Trial):
    """A trial that keeps what the subject was asked."""

    def __init__(self, bench: Bench, sample: Sample, *, fair: bool = True) -> None:
        super().__init__(bench, sample, fair=fair)
        self.asked: dict[tuple[Any, ...], Settled] = {}

    def reply(self, settled: Settled) -> Reply:
        self.asked[settled.key] = settled
        return super().reply(settled)


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
        return self.trial.base_frame()[name] if frame is None else self.allowed(frame[name])

    def given(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        key = ("given", self.law.name, self.trial.bench.words_key, name)
        if name not in self.law.asking and key in self.trial.cache:
            drawn = self.trial.cache[key]
        else:
            literal = self.trial.sample.case.literals.get(f"{self.law.name}.{name}")
            drawn = self.law.given[name](_Giving(self, name)) if literal is None else np.asarray(literal)
        if name not in self.law.asking:  # it does not depend on the subject, and serves all of them
            self.trial.cache[key] = drawn
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
        if key not in trial.cache:
            trial.cache[key] = trial.settle(site(self))
        return trial.cache[key]

    def word(self, convention: str) -> str:
        return self[convention]

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        frame = self.claimed()
        if frame is None:
            return self.trial.base_frame().operator(name, arguments)
        with recording():  # what a definition compares is not a claim
            return self.allowed(frame.operator(name, arguments))

    def claimed(self) -> Frame | None:
        """The definition under the claimed precision, for what a claim compares with outputs; None elsewhere."""
        return self.trial.graded_frame(self.precision) if self.claiming and self.precision is not None else None

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
        raise SpecError("a claim draws nothing; draw under `given`")


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


def _whole_numbers(x: Any, name: str) -> NDArray[Any]:
    """An input of integers, whatever an expression made of it."""
    plain = np.asarray(x)
    if plain.dtype.kind != "f":
        return plain
    if not np.array_equal(plain, np.rint(plain)):
        raise SpecError(f"{name} is replaced by what are not integers")
    return plain.astype(np.int64)


def same(x: Any, y: Any) -> bool:
    """Whether two values are one and the same, booleans and numbers told apart."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        both = isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
        return both and x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    return isinstance(x, bool) == isinstance(y, bool) and (x == y)


def _digest(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    return x.shape, hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=12).digest()
