"""What first calls show of a function: its framework, and whether it can be differentiated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..cases.plans import scenarios_of
from ..errors import Error
from ..execution.calling import UNDIFFERENTIABLE, Call
from ..frameworks.known import is_installed
from ..mechanisms.library import Library
from ..subjects.gradients import GradientSubject, gradient_of, may_have_gradients, writes
from ..subjects.subject import AdapterSubject, Subject
from .bench import Bench
from .settling import Declined, Settled, claimed

LOOKED_AT = 16
"""Scenarios of which the smallest is the first call."""
SMALLEST = 2
"""Calls that are tried, for one may be refused."""


def noticed(subject: Subject, device: str) -> tuple[str, ...]:
    """What first calls find of a subject, in words; nothing where its declaration or its file says it."""
    if not isinstance(subject, AdapterSubject):
        return ()
    found = find_framework(subject, device)
    says = [f"takes arrays of {found}, as a first call shows; --framework selects another framework"] if found else []
    if subject.claims.sparing:
        says.append("is compiled for every shape, so few shapes are tried; compiled=False or --profile ci tries all")
    return tuple(says)


def differentiated(subject: Subject, device: str, known: Library) -> tuple[GradientSubject | None, tuple[str, ...]]:
    """The gradients of a subject as a further one, or what is to be said where it has none."""
    if not isinstance(subject, AdapterSubject) or not may_have_gradients(subject):
        return None, ()
    mechanism = gradient_of(subject, known)
    if mechanism is None:
        written = writes(subject) and f"{subject.operator}_gradient" in known.stating
        return None, ("its gradients are not checked: it writes to its inputs",) if written else ()
    try:
        found = GradientSubject(subject, mechanism)
    except Error as error:
        return None, (f"its gradients are not checked: {error}",)
    if subject.adapter.differentiable:
        return found, ()
    for call in first_calls(found, device):
        with found.session():
            fault = found.call(call).fault
        if fault is not None and fault.says.startswith(UNDIFFERENTIABLE):
            return None, (f"its gradients are not checked: {fault.says}",)
        if fault is None or fault.kind != "unsupported":
            return found, ()
    return None, ()


def find_framework(subject: AdapterSubject, device: str) -> str:
    """The framework of a function that does not show it, where calls have found one; the subject is called with it."""
    perhaps = [name for name in subject.adapter.perhaps if subject.own or is_installed(name)]
    if not perhaps:
        return ""
    calls, first = list(first_calls(subject, device)), subject.adapter.framework
    for name in perhaps:
        subject.hand(name)
        if any(_answered(subject, call) for call in calls):
            return name
    subject.hand(first)
    return ""


def first_calls(subject: AdapterSubject, device: str) -> Iterator[Call]:
    """The smallest of the first scenarios, as the subject claims them."""
    operator, dtype = subject.mechanism, subject.claims.dtypes[0]
    samples = islice(scenarios_of(operator, subject.claims, seed=0, dtype=dtype), LOOKED_AT)
    for sample in sorted(samples, key=lambda one: one.entries)[:SMALLEST]:
        bench = Bench(subject, sample.mechanism, dtype, device, operator.words)
        try:
            yield claimed(bench, sample, Settled(sample.values))
        except Declined:
            continue


def _answered(subject: AdapterSubject, call: Call) -> bool:
    """Whether a call gives arrays of the framework, in the dtype that was asked for."""
    with subject.session():
        reply = subject.call(call)
    return reply.fault is None and not any(breach.contract == "dtype" for breach in reply.breaches)
