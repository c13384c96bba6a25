"""The calls that a subject refuses although its declaration admits them: how many, and whether by value.

Declared limits and conditions are no refusals, for nobody is misled by them. What is refused in the call itself is
counted, and asked once more with plain entries in place of those of the case: who answers then refuses by value, and
might refuse just what it would get wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..execution.calling import Call
from ..numerics.streams import Stream
from ..subjects.gradients import GradientSubject
from .settling import Declined, same
from .trial import Trial

ASKED = 8
"""Refused cases of a run that are asked once more."""
NAMED = 3
"""Reasons for a refusal by value that are kept."""


@dataclass(slots=True)
class Refusals:
    """What a run has seen of them."""

    answered: list[str] = field(default_factory=list)
    """The scenarios that gave a result."""
    refused: dict[str, str] = field(default_factory=dict)
    """The scenarios that were refused, each with what was said."""
    by_value: dict[str, str] = field(default_factory=dict)
    """What was said of a case that is answered with other entries, with such a case."""
    given: set[str] = field(default_factory=set)
    """The options and optional inputs that some answered case has, away from their default."""
    asked: int = 0

    def watch(self, trial: Trial) -> None:
        """Take note of what became of the call of a case."""
        case, says = trial.sample.case, refusal(trial)
        if trial.answered:
            self.given |= given(trial)
            self.answered += [case.label] if case.scenario else []
        if says is None or _refused_before(trial):
            return
        if case.scenario:
            self.refused[case.label] = says
        if self.asked < ASKED and len(self.by_value) < NAMED and says not in self.by_value:
            self.asked += 1
            if answers(trial, plain(trial)):
                self.by_value[says] = case.label


def given(trial: Trial) -> set[str]:
    """The options and optional inputs that a case has, away from their default."""
    m, values = trial.mechanism, trial.sample.values
    names = (*m.optional, *m.options)
    return {name for name in names if name not in m.defaults or not same(values[name], m.defaults[name])}


def refusal(trial: Trial) -> str | None:
    """What the subject said that refused the call of a case; None of one that it answered, or does not claim."""
    reply = trial.replies.get(trial.base.key)
    return reply.fault.says if reply is not None and reply.fault and reply.fault.kind == "unsupported" else None


def _refused_before(trial: Trial) -> bool:
    """Whether a call for gradients is one that the function refuses without them, where that is counted."""
    subject = trial.bench.subject
    if not isinstance(subject, GradientSubject):
        return False
    with subject.forward.session():
        return subject.forward_fails(trial.call(trial.base))


def plain(trial: Trial) -> Call | None:
    """The call of a case with plain entries: the same sizes, options, dtype and memory layout."""
    try:
        call = trial.call(trial.base)
    except Declined:
        return None
    stream = Stream(trial.sample.case.seed, "plain")
    inputs = {name: _plain(x, stream) for name, x in call.inputs.items()}
    return None if _same(inputs, call.inputs) else replace(call, inputs=inputs)


def answers(trial: Trial, call: Call | None) -> bool:
    """Whether a subject answers a call."""
    return call is not None and trial.bench.subject.call(call).fault is None


def _plain(x: np.ndarray, stream: Stream) -> np.ndarray:
    """Normal numbers, or booleans that are all true; integers stay, for they may be places in other arrays."""
    if x.dtype.kind == "b":
        return np.ones_like(x)
    return stream.normal(x.shape) if x.dtype.kind == "f" else x


def _same(inputs: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> bool:
    return all(np.array_equal(x, others[name], equal_nan=x.dtype.kind == "f") for name, x in inputs.items())
