"""The speed of a subject: whether a call that timed out hangs or is slow, and which cases take too long.

A call without an answer is asked once more with smaller sizes. Who answers that is slow, and not wrong for it; who does
not, or would answer such a small case in no time, is stuck. After a slow case those are left out that are as large, and
after a few of them all that are larger than what was answered.

How large a case is has two measures, for nobody knows how a subject goes about it: the entries of its arrays, and the
steps of a loop over all of its sizes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..execution.calling import Call, Reply
from ..execution.faults import ABRUPT, Fault
from ..mechanisms.mechanism import Mechanism
from ..subjects.subject import Subject

SMALL = 2048
"""Entries up to which a case is small."""
QUICK = 1 / 4
"""The share of the time it was given within which a small case ought to be answered."""
TRIES = 3
"""Calls of a smaller case, of which the fastest counts."""
PATIENT = 3
"""Slow cases that are waited for."""

UNDUE = 5.0
"""Seconds that a call may take on which no verdict depends as a rule."""

Calls = Callable[[Sample], Call | None]
"""The call of a case, if it is one that a subject claims."""


@dataclass(frozen=True, slots=True)
class Work:
    """How much a call is about: the entries of its arrays, or its sizes where it has none, and the sizes multiplied."""

    entries: int
    steps: int

    def covers(self, other: Work) -> bool:
        """Whether another is no larger by any measure."""
        return self.entries >= other.entries and self.steps >= other.steps


@dataclass(slots=True)
class Pace:
    """What is known of a subject at one dtype."""

    answered: dict[Work, float] = field(default_factory=dict)
    """The least time that an amount of work has taken."""
    sizes: dict[str, int] = field(default_factory=dict)
    """The largest sizes that were answered."""
    slow: list[Work] = field(default_factory=list)
    """The work of the cases that ran out of time."""
    says: str = ""
    stuck: bool = False
    """Whether a small case had no answer either."""

    def too_large(self, amount: Work) -> bool:
        """Whether there is no time for a call, as far as that is known."""
        if any(amount.covers(slow) for slow in self.slow):
            return True
        return len(self.slow) >= PATIENT and not any(done.covers(amount) for done in self.answered)

    def spares(self, entries: int) -> bool:
        """Whether a case of so many entries may be left out: the subject is slow, or at its rate takes too long."""
        return bool(self.slow) or (bool(self.answered) and self.expected(Work(entries, 1))[-1] > UNDUE)

    def answer(self, amount: Work, values: Mapping[str, Any], seconds: float) -> None:
        """Take note of what was answered, and in which time."""
        self.answered[amount] = min(seconds, self.answered.get(amount, seconds))
        for name, n in _sizes(values):
            self.sizes[name] = max(self.sizes.get(name, 0), n)

    def judged(
        self, fault: Fault, amount: Work, sample: Sample, subject: Subject, calls: Calls, seconds: float
    ) -> Fault:
        """What a call without an answer was, after so many seconds: `slow`, or `hung` as it seemed."""
        small = None if self.stuck else _in_small(sample, subject, calls)
        if small is None:
            self.stuck = True
            return fault
        for asked, values, taken in small:
            self.answer(asked, values, taken)
        if amount.entries <= SMALL and self.expected(amount)[-1] < QUICK * seconds:
            return fault
        self.slow.append(amount)
        self.says = self._told(fault.says, amount, sample, seconds)
        return Fault("slow", self.says)

    def expected(self, amount: Work) -> list[float]:
        """The seconds that an amount of work ought to take, by the fastest rate of each measure, the least first."""
        return sorted(
            min(taken * max(measure(amount) / measure(done), 1) for done, taken in self.answered.items())
            for measure in (attrgetter("entries"), attrgetter("steps"))
        )

    def _told(self, says: str, amount: Work, sample: Sample, seconds: float) -> str:
        """That a case was too slow, at which rate, and what declaring limits would say.

        A rate by which it had to be answered is none of this subject's.
        """
        told = next((f"about {x:.2g} s" for x in self.expected(amount) if x >= seconds), "")
        rate = (
            f"at the rate of what it answers it takes {told}"
            if told
            else f"what it answers takes {max(self.answered.values()):.2g} s or less"
        )
        sizes = {name: n for name, n in _sizes(sample.values) if name in sample.mechanism.sizes}
        beyond = {name: n / self.sizes[name] for name, n in sizes.items() if n > self.sizes.get(name, n)}
        if not beyond:
            case = ", ".join(f"{name} = {n}" for name, n in sizes.items())
            return f"too slow: a case with {case} {says}; {rate}; raise --time-limit"
        name = max(beyond, key=lambda name: beyond[name])
        limit = f"limits={{{name!r}: range(1, {self.sizes[name] + 1})}}"
        return f"too slow: a case with {name} = {sizes[name]} {says}; {rate}; declare {limit} or raise --time-limit"


class Paces(WeakKeyDictionary[Subject, dict[tuple[str, str], Pace]]):
    """What is known of the subjects of a library."""


def pace_of(subject: Subject, mechanism: Mechanism, dtype: str, device: str) -> Pace:
    """What is known of a subject at a dtype on a device, in all of its mechanisms."""
    try:
        return mechanism.kept(Paces).setdefault(subject, {}).setdefault((dtype, device), Pace())
    except TypeError:  # one that nobody can keep in mind
        return Pace()


def work(mechanism: Mechanism, call: Call, values: Mapping[str, Any]) -> Work:
    """How much a call is about; sizes that follow from others count with those."""
    entries = sum(x.size for x in call.inputs.values() if isinstance(x, np.ndarray))
    sizes = {name: mechanism.sizes[name] for name, _ in _sizes(values) if name in mechanism.sizes}
    own = (values[name] for name, size in sizes.items() if size.draws or not size.uses)
    return Work(max(entries or sum(n for _, n in _sizes(values)), 1), math.prod(own))


def _sizes(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return ((name, x) for name, x in values.items() if isinstance(x, int) and not isinstance(x, bool) and x > 0)


def _in_small(sample: Sample, subject: Subject, calls: Calls) -> list[tuple[Work, Mapping[str, Any], float]] | None:
    """Calls of the same case with smaller sizes, their values and seconds; None where one has no answer."""
    for part in (64, 16, 4):
        fixed = {name: _smaller(sample, name, x, part) for name, x in sample.case.fixed.items()}
        try:
            case = replace(sample.case, fixed=fixed, literals={})
            small = Sample(sample.mechanism, case, sample.dtype, claims=subject.claims)
            call = calls(small)
        except (Unfit, SpecError):
            continue
        if call is None or sum(map(_amount, small.values.values())) >= sum(map(_amount, sample.values.values())):
            continue
        found = []
        for _ in range(TRIES):  # the first call of a process takes longer
            started = time.perf_counter()
            reply: Reply = subject.call(call)
            if reply.fault is not None and reply.fault.kind in ABRUPT:
                return None
            amount = work(small.mechanism, call, small.values)
            found.append((amount, small.values, time.perf_counter() - started))
        return found
    return None


def _amount(x: Any) -> int:
    return x.size if isinstance(x, np.ndarray) else 0 if isinstance(x, bool) or not isinstance(x, int) else max(x, 0)


def _smaller(sample: Sample, name: str, x: Any, part: int) -> Any:
    return max(1, x // part) if name in sample.mechanism.sizes and isinstance(x, int) and x > 1 else x
