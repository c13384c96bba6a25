"""Whether wrong gradients are those of what the function itself returns, so that not its backward pass is at fault.

Nor is it where a call gives no gradients, and the function ends in the same way without any asked for.

The function is called a small step ahead and a small step behind along random directions: these differences need no
definition.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..execution.backward import cotangents_in
from ..execution.calling import Call
from ..execution.faults import ABRUPT
from ..judging.bench import Bench
from ..judging.cells import Failure
from ..judging.trial import Trial
from ..numerics.formats import FLOAT64, FORMATS
from ..numerics.streams import Stream
from ..subjects.gradients import GradientSubject
from .observations import Observation

CALLS = 6
"""Wrong calls that are looked at."""
TURNS = 4
"""Directions along which an input of each of them is moved at most, until enough tell."""
TELLING = 3
"""Differences that tell wrong gradients from right ones, all of which are those of the function."""
ROOM = 1e-3
"""The share of a difference by which a gradient along the same direction may miss it, in wide dtypes.

In others it is half a step, which is the cube root of what results are rounded by.
"""
APART = 4
"""How many times as far off as that the right gradient is where a difference tells."""
BENT = 0.75
"""The share of the difference between the slopes ahead and behind that half a step leaves at a bend, and more."""


@dataclass(frozen=True, slots=True)
class OwnDerivatives:
    """Gradients that are those of a function which is wrong itself."""

    operator: str
    """Of the function."""
    told: int
    """Differences that agree with the gradients, and not with the right ones; none where there are no gradients."""


def own_derivatives(bench: Bench, observations: Sequence[Observation]) -> OwnDerivatives | None:
    """What the wrong gradients of a function follow from; None where they are not those of what it returns.

    That is asked of functions that attnspec differentiates, on calls with wrong gradients.
    """
    subject = bench.subject
    if not isinstance(subject, GradientSubject):
        return None
    told = 0
    wrong = [o for o in observations if o.mechanism is bench.mechanism and not o.right][:CALLS]
    for turn, observation in itertools.product(range(TURNS), wrong):
        if turn and told >= TELLING:
            break
        for one in _directions(subject, observation, turn):
            found = one.difference()
            if found is None:
                continue
            if abs(found - one.own) > (room := one.room * one.size(found) + one.blur):
                nearer = one.difference(1 / 2)
                if nearer is None or abs(nearer - found) > one.room * max(abs(nearer), abs(found)) or one.bent(room):
                    continue
                found = (4 * nearer - found) / 3  # the error of a step goes with its square
                if abs(found - one.own) > room:
                    return None
            told += abs(one.right - found) > APART * room
    return OwnDerivatives(subject.forward.operator, told) if told >= TELLING else None


def ends_alike(bench: Bench, failure: Failure) -> OwnDerivatives | None:
    """What it follows from that a call gives no gradients; None where the function itself gives a result on it."""
    subject, fault = bench.subject, failure.outcome.fault
    if not isinstance(subject, GradientSubject) or fault is None or fault.kind not in ("raised", *ABRUPT):
        return None
    trial = Trial(bench, failure.sample)
    call = trial.call(trial.base)
    with subject.forward.session():
        own = subject.forward_reply(call, call.inputs).fault
    alike = own is not None and own.kind == fault.kind and (fault.kind in ABRUPT or own.says == fault.says)
    return OwnDerivatives(subject.forward.operator, 0) if alike else None


@dataclass(frozen=True, slots=True)
class _Direction:
    """A direction in which one input of a function is moved."""

    subject: GradientSubject
    call: Call
    input: str
    ahead: Any
    own: float
    """The derivative along it, by the gradient that was returned."""
    right: float
    """By that which should have been."""
    blur: float = 0.0
    """What rounding may do to either."""

    @property
    def step(self) -> float:
        """The cube root of what results are rounded by."""
        return float(FORMATS.get(self.call.dtype, FLOAT64).unit ** (1 / 3))

    @property
    def room(self) -> float:
        return max(ROOM, self.step / 2)

    def difference(self, share: float = 1.0) -> float | None:
        """The derivative by what the function returns on both sides, a step or a share of it away.

        None where rounding may have made it.
        """
        step = share * self.step
        front, back = self._at(step), self._at(-step)
        if front is None or back is None:
            return None
        found = (front[0] - back[0]) / (2 * step)
        noise = front[1] * self.step**3 / step  # the cube of a step is what results are rounded by
        return found if np.isfinite(found) and noise < self.room * self.size(found) else None

    def size(self, found: float) -> float:
        """Of what size the derivatives are, of which that of the function may well be zero."""
        return max(abs(self.own), abs(self.right), abs(found))

    def bent(self, room: float) -> bool:
        """Whether the slope ahead stays another than that behind however small the step is, as at a largest entry."""
        gaps, here = list[float](), self._at(0.0)
        for step in (self.step, self.step / 2):
            front, back = self._at(step), self._at(-step)
            if front is None or here is None or back is None:
                return True
            gaps.append(abs(front[0] - 2 * here[0] + back[0]) / step)
        return gaps[1] > max(room, BENT * gaps[0])

    def _at(self, moved: float) -> tuple[float, float] | None:
        return self._weighted({**self.call.inputs, self.input: self.call.inputs[self.input] + moved * self.ahead})

    def _weighted(self, inputs: Mapping[str, Any]) -> tuple[float, float] | None:
        """The sum of all outputs, each times what is passed as its gradient, and the root of the sum of squares."""
        names = [*self.subject.forward.mechanism.outputs]
        asked = {names[at]: name for name, at in cotangents_in(inputs, names).items()}
        outputs = self.subject.forward_reply(self.call, inputs).outputs
        if not asked.keys() <= outputs.keys():
            return None
        with np.errstate(all="ignore"):
            parts = [np.asarray(outputs[name], float) * inputs[weight] for name, weight in asked.items()]
            return float(sum(np.sum(part) for part in parts)), float(sum(np.sum(part**2) for part in parts)) ** 0.5


def _directions(subject: GradientSubject, observation: Observation, turn: int) -> Iterator[_Direction]:
    """A random direction for each gradient that a call has returned, another in every turn."""
    call = observation.trial.call(observation.settled)
    for name in observation.names:
        at, x = name.removeprefix("d_"), call.inputs.get(name.removeprefix("d_"))
        right, own = (np.asarray(y[name], float) for y in (observation.exact.values, observation.outputs))
        if x is None or not x.shape == right.shape == own.shape:
            continue
        stream = Stream("direction", name, *x.shape, *([turn] if turn else ()))
        ahead = stream.normal(x.shape) * max(1.0, float(np.abs(x).max(initial=0.0)))
        with np.errstate(all="ignore"):
            along = [float(np.sum(y * ahead)) for y in (own, right)]
            along.append(float(np.sum(observation.exact.radius(name) * np.abs(ahead))))
        if np.isfinite(along).all():
            yield _Direction(subject, call, at, ahead, *along)
