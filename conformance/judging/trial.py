"""One sample against one subject: the calls, and the errors of their outputs.

An output of the subject enters a law as a number with a bound: what the definition, run on the inputs of that very call
at a claimed precision, says that rounding may do, and the rounding of the result.
Equal calls are run once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.samples import Sample
from ..errors import SpecError
from ..execution.calling import Call, Reply
from ..execution.faults import Fault
from ..numerics.grades import Grade
from ..numerics.numbers import Number
from ..subjects.stand_ins import DefinitionSubject
from .bench import ANSWERED, Bench
from .bounds import Bounds
from .frames import Frames
from .pace import work
from .settling import Declined, Settled, claimed, settle


class Faulted(Exception):  # noqa: N818 - an answer
    """A call gave no result: it raised, or returned what is not a result."""

    def __init__(self, fault: Fault, settled: Settled) -> None:
        super().__init__(fault.says)
        self.fault, self.settled = fault, settled


class Slow(Declined):
    """There is no time for a call; the subject is not stuck."""


class Trial:
    """A sample on a bench. Replies are kept; what belongs to the sample alone is kept with it."""

    def __init__(self, bench: Bench, sample: Sample, *, fair: bool = True) -> None:
        """With `fair`, laws give a wide bound to entries that are far from the definition; see `number`."""
        self.bench, self.sample, self.mechanism, self.fair = bench, sample, bench.mechanism, fair
        self.frames = Frames(bench, sample)
        self.bounds = Bounds(self.frames)
        self.base = self.frames.base
        self.replies: dict[tuple[Any, ...], Reply] = {}
        self.spent: list[Reply] = []
        """Replies that are no longer kept, without their outputs."""
        self.noted: dict[tuple[Any, ...], Settled] | None = None
        """The calls that were looked at, by their keys, while somebody wants to know."""
        self._numbers: dict[tuple[Any, ...], Any] = {}

    def release(self) -> None:
        """Let go of what was returned, but for the case itself: hardly any other call is made by two laws."""
        self.spent += [replace(reply, outputs={}) for key, reply in self.replies.items() if key]
        self.replies = {key: reply for key, reply in self.replies.items() if not key}
        self._numbers = {}

    def settle(self, replaced: Mapping[str, Any]) -> Settled:
        """The call with some inputs and options replaced."""
        return settle(self.bench, self.sample, replaced)

    def call(self, settled: Settled, *, poisoned: bool = False, wrong: bool = False) -> Call:
        """The call in terms of what the subject claims; `Declined` where it claims too little."""
        return claimed(self.bench, self.sample, settled, poisoned=poisoned, wrong=wrong)

    def reply(self, settled: Settled) -> Reply:
        """What the subject returned; `Declined` or `Faulted` where it returned nothing."""
        if self.noted is not None:
            self.noted[settled.key] = settled
        reply = self.replies.get(settled.key)
        if reply is None:
            reply = self.replies[settled.key] = self._answer(settled)
            self.bench.faults[reply.fault.kind if reply.fault else ANSWERED] += 1
        if reply.fault is not None:
            if reply.fault.kind == "slow":
                raise Slow(reply.fault.says)
            if reply.fault.kind == "unsupported":
                raise Declined(reply.fault.says)
            raise Faulted(reply.fault, settled)
        return reply

    def _answer(self, settled: Settled) -> Reply:
        """What comes of a call, if there is time for it."""
        call, subject = self.call(settled), self.bench.subject
        if isinstance(subject, DefinitionSubject):  # which is never slow
            return subject.call(call)
        pace = self.bench.pace
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
        try:
            return claimed(self.bench, sample, Settled(sample.values))
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

    def observed(self, name: str, settled: Settled) -> NDArray[np.float64]:
        """What the subject returned as an output; one of the wrong shape is `Faulted`."""
        reply = self.reply(settled)
        y = reply.outputs.get(name)
        if y is None:
            raise Declined(f"does not return {name}")
        expected = self.frames.shape(name, settled)
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
            self._numbers[key] = self.bounds.number(y, name, settled, grade, worst, fair)
        elif self.noted is not None:
            self.noted[settled.key] = settled
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


class Tracing(Trial):
    """A trial that keeps what the subject was asked, and which outputs were looked at."""

    def __init__(self, bench: Bench, sample: Sample, *, fair: bool = True) -> None:
        super().__init__(bench, sample, fair=fair)
        self.asked: dict[tuple[Any, ...], Settled] = {}
        self.noted = self.asked
        self.looked_at: set[tuple[str, tuple[Any, ...]]] = set()
        """The outputs, each with the key of its call."""

    def observed(self, name: str, settled: Settled) -> NDArray[np.float64]:
        self.looked_at.add((name, settled.key))
        return super().observed(name, settled)
