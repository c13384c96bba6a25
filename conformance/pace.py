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

from .calling import ABRUPT, Call, Fault, Reply
from .cases import Sample, Unfit
from .errors import SpecError
from .subject import Subject

SMALL = 2048
"""Work up to which a case is small."""
QUICK = 1 / 4
"""The share of the time it was given within which a small case ought to be answered."""
PATIENT = 3
"""Slow cases that are waited for."""

Calls = Callable[[Sample], Call | None]
"""The call of a case, if it is one that a subject claims."""


@dataclass(slots=True)
class Pace:
    """What is known of a subject at one dtype."""

    answered: int = 0
    """The most work that was answered."""
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
        return amount >= min(self.slow) or (len(self.slow) >= PATIENT and amount > self.answered)

    def answer(self, call: Call, values: Mapping[str, Any]) -> None:
        """Take note of what was answered."""
        self.answered = max(self.answered, work(call, values))
        for name, n in _sizes(values):
            self.sizes[name] = max(self.sizes.get(name, 0), n)

    def judged(self, fault: Fault, call: Call, sample: Sample, subject: Subject, calls: Calls, seconds: float) -> Fault:
        """What a call without an answer was, after so many seconds: `slow`, or `hung` as it seemed."""
        amount = work(call, sample.values)
        small = None if self.stuck else _in_small(sample, subject, calls)
        if small is None:
            self.stuck = True
            return fault
        least, taken, values = small
        if amount <= SMALL and taken * amount < QUICK * seconds * least:
            return fault
        for name, n in _sizes(values):
            self.sizes[name] = max(self.sizes.get(name, 0), n)
        self.slow.append(amount)
        self.says = _told(fault.says, sample, self.sizes, least, taken, amount)
        return Fault("slow", self.says)


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


def _in_small(sample: Sample, subject: Subject, calls: Calls) -> tuple[int, float, Mapping[str, Any]] | None:
    """The work and the seconds of the same case with smaller sizes, and its values; None where there is no answer."""
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
        subject.call(call)  # the first call of a process takes longer
        started = time.perf_counter()
        reply: Reply = subject.call(call)
        answered = reply.fault is None or reply.fault.kind not in ABRUPT
        return (work(call, small.values), time.perf_counter() - started, small.values) if answered else None
    return None


def _amount(x: Any) -> int:
    return x.size if isinstance(x, np.ndarray) else 0 if isinstance(x, bool) or not isinstance(x, int) else max(x, 0)


def _smaller(sample: Sample, name: str, x: Any, part: int) -> Any:
    return max(1, x // part) if name in sample.mechanism.sizes and isinstance(x, int) and x > 1 else x


def _told(says: str, sample: Sample, answered: Mapping[str, int], least: int, taken: float, amount: int) -> str:
    """That a case was too slow, at which rate, and what declaring limits would say."""
    rate = f"a smaller one took {taken:.2g} s, which makes about {taken * amount / least:.2g} s for this one"
    sizes = {name: n for name, n in _sizes(sample.values) if name in sample.mechanism.sizes}
    beyond = {name: n / answered[name] for name, n in sizes.items() if n > answered.get(name, n)}
    if not beyond:
        return f"too slow: a case {says}; {rate}; raise --time-limit"
    name = max(beyond, key=lambda name: beyond[name])
    limit = f"limits={{{name!r}: range(1, {answered[name] + 1})}}"
    return f"too slow: a case with {name} = {sizes[name]} {says}; {rate}; declare {limit} or raise --time-limit"
