"""How fast a subject is: whether a call that ran out of time is stuck or merely slow, and which cases take too long.

A call without an answer is asked once more with smaller sizes. Who answers that is slow, and not wrong for it; who does
not, or would answer such a small case in no time, is stuck. After a slow case those are left out that are as large, and
after a few of them all that are larger than what was answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..execution.calling import ABRUPT, Call, Fault, Reply
from ..subjects.subject import Subject

SMALL = 2048
"""Work up to which a case is small."""
QUICK = 1 / 4
"""The share of the time it was given within which a small case ought to be answered."""
TRIES = 3
"""Calls of a smaller case, of which the fastest counts."""
PATIENT = 3
"""Slow cases that are waited for."""

Calls = Callable[[Sample], Call | None]
"""The call of a case, if it is one that a subject claims."""


@dataclass(slots=True)
class Pace:
    """What is known of a subject at one dtype."""

    answered: dict[int, float] = field(default_factory=dict)
    """The least time that an amount of work has taken."""
    sizes: dict[str, int] = field(default_factory=dict)
    """The largest sizes that were answered."""
    slow: list[int] = field(default_factory=list)
    """The work of the cases that ran out of time."""
    says: str = ""
    stuck: bool = False
    """Whether a small case had no answer either."""

    def too_large(self, call: Call, values: Mapping[str, Any]) -> bool:
        """Whether there is no time for a call, as far as that is known."""
        if not self.slow:
            return False
        amount = work(call, values)
        return amount >= min(self.slow) or (len(self.slow) >= PATIENT and amount > max(self.answered, default=0))

    def answer(self, call: Call, values: Mapping[str, Any], seconds: float) -> None:
        """Take note of what was answered, and in which time."""
        amount = work(call, values)
        self.answered[amount] = min(seconds, self.answered.get(amount, seconds))
        for name, n in _sizes(values):
            self.sizes[name] = max(self.sizes.get(name, 0), n)

    def judged(self, fault: Fault, call: Call, sample: Sample, subject: Subject, calls: Calls, seconds: float) -> Fault:
        """What a call without an answer was, after so many seconds: `slow`, or `hung` as it seemed."""
        amount = work(call, sample.values)
        small = None if self.stuck else _in_small(sample, subject, calls)
        if small is None:
            self.stuck = True
            return fault
        for asked, values, taken in small:
            self.answer(asked, values, taken)
        if amount <= SMALL and self.expected(amount) < QUICK * seconds:
            return fault
        self.slow.append(amount)
        self.says = _told(fault.says, sample, self.sizes, self.expected(amount))
        return Fault("slow", self.says)

    def expected(self, amount: int) -> float:
        """The seconds that an amount of work ought to take, by the fastest rate at which any was answered."""
        return min(taken * max(amount / least, 1) for least, taken in self.answered.items() if least)


_KNOWN: WeakKeyDictionary[Subject, dict[tuple[str, str], Pace]] = WeakKeyDictionary()


def pace_of(subject: Subject, dtype: str, device: str) -> Pace:
    """What is known of a subject at a dtype on a device, in all of its mechanisms."""
    try:
        return _KNOWN.setdefault(subject, {}).setdefault((dtype, device), Pace())
    except TypeError:  # one that nobody can keep in mind
        return Pace()


def work(call: Call, values: Mapping[str, Any]) -> int:
    """How much a call is about: the entries of its arrays, or its sizes where it has none."""
    entries = sum(x.size for x in call.inputs.values() if isinstance(x, np.ndarray))
    return entries or sum(n for _, n in _sizes(values))


def _sizes(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return ((name, x) for name, x in values.items() if isinstance(x, int) and not isinstance(x, bool) and x > 0)


def _in_small(sample: Sample, subject: Subject, calls: Calls) -> list[tuple[Call, Mapping[str, Any], float]] | None:
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
            found.append((call, small.values, time.perf_counter() - started))
        return found
    return None


def _amount(x: Any) -> int:
    return x.size if isinstance(x, np.ndarray) else 0 if isinstance(x, bool) or not isinstance(x, int) else max(x, 0)


def _smaller(sample: Sample, name: str, x: Any, part: int) -> Any:
    return max(1, x // part) if name in sample.mechanism.sizes and isinstance(x, int) and x > 1 else x


def _told(says: str, sample: Sample, answered: Mapping[str, int], expected: float) -> str:
    """That a case was too slow, at which rate, and what declaring limits would say."""
    rate = f"at the rate of what it answers it takes {expected:.2g} s or more"
    sizes = {name: n for name, n in _sizes(sample.values) if name in sample.mechanism.sizes}
    beyond = {name: n / answered[name] for name, n in sizes.items() if n > answered.get(name, n)}
    if not beyond:
        return f"too slow: a case {says}; {rate}; raise --time-limit"
    name = max(beyond, key=lambda name: beyond[name])
    limit = f"limits={{{name!r}: range(1, {answered[name] + 1})}}"
    return f"too slow: a case with {name} = {sizes[name]} {says}; {rate}; declare {limit} or raise --time-limit"
