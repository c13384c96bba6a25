"""The smallest first calls of a function, and whether it survives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from ..cases.plans import plan, scenarios_of
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..execution.calling import Call, Reply
from ..execution.faults import ABRUPT
from ..mechanisms.mechanism import Mechanism
from ..subjects.subject import AdapterSubject
from .bench import Bench
from .settling import Declined, Settled, claimed

LOOKED_AT = 16
"""Scenarios of which the smallest is the first call."""
SMALLEST = 2
"""Calls that are tried, for one may be refused."""


def first_calls(
    subject: AdapterSubject, device: str, mechanism: Mechanism | None = None, *, dtype: str = ""
) -> Iterator[Call]:
    """The smallest of the first scenarios of a mechanism, or of its operator, as the subject claims them.

    They are made in its first dtype, unless another one is named.
    """
    operator, claims = subject.mechanism, subject.claims
    dtype = dtype or claims.dtypes[0]
    scenarios = (
        scenarios_of(operator, claims, seed=0, dtype=dtype)
        if mechanism is None
        else plan(mechanism, claims, PROFILES["quick"], 0, dtype).one_by_one()
    )
    samples = islice(scenarios, LOOKED_AT)
    yield from calls_of(subject, sorted(samples, key=lambda one: one.entries)[:SMALLEST], device)


def calls_of(subject: AdapterSubject, samples: Iterable[Sample], device: str) -> Iterator[Call]:
    """The calls of some cases as they were drawn, but for those that the subject does not claim."""
    for sample in samples:
        bench = Bench(subject, sample.mechanism, sample.dtype, device, subject.mechanism.words)
        with suppress(Declined):
            yield claimed(bench, sample, Settled(sample.values))


def ends_processes(subject: AdapterSubject, device: str) -> bool:
    """Whether first calls of a function end their process, each of them; no further one would show anything."""
    calls = [*first_calls(subject, device)]
    with subject.session():
        return bool(calls) and all(is_deadly(subject.call(call)) for call in calls)


def is_deadly(reply: Reply) -> bool:
    """Whether a call ended its process."""
    return reply.fault is not None and reply.fault.kind in ABRUPT
