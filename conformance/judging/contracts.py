"""The contracts of every call, whatever a mechanism computes, and which of them a subject violates."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.samples import Sample
from ..errors import SpecError
from ..execution.backward import AFTERWARDS, AGAIN
from ..execution.calling import LASTING, Breach, Reply
from ..execution.faults import ABRUPT, Fault
from ..numerics.grades import Grade, looser
from ..subjects.stand_ins import DefinitionSubject
from ..subjects.subject import AdapterSubject, in_another_process, noted
from .bench import Bench
from .independence import is_bad
from .judge import Kind, Outcome
from .pace import work
from .recognition import Mark, recognized
from .settling import Declined
from .trial import Trial

CONTRACTS = {
    "shape": "Every output has the shape that the definition gives it.",
    "dtype": "Every output has the dtype of the inputs, or its own.",
    "device": "Every output is on the device of the inputs.",
    "fresh_output": "No output shares memory with an input or an earlier output.",
    "inputs_unchanged": "A call does not change its inputs.",
    "state": "A call does not change the settings of its process or its random state.",
    "written": "Every entry of an output is written.",
    "repeatable": "The same call gives the same result.",
    "independence": "A call gives the same result in a process without attnspec, and after calls in another dtype.",
    "precision": "The rounding errors fit the claimed precision.",
}

DRAWN = "random_state"
"""The breach of drawing from a global generator, which only should not be, and is as it should be of random outputs."""


ONCE = {
    "parameters": "Every parameter of the function is an input or an option, or is declared to have only one value.",
    "batch_invariant": "The bits of an item depend neither on other items of its batch nor on its place.",
    "chunk_invariant": "The bits of a query do not depend on which other queries are in the call.",
    "threads": "Several threads may call at the same time, and each gets the result of a single call.",
    "bounds": "No call reads or writes beyond its arrays.",
    "layout": "A layout of arrays that is not the operator's own is declared.",
    "backward": "Gradients are the same one by one, after a call without any, and in a second backward pass, "
    "which adds to what is there.",
}
"""What is asked of a subject as a whole, and has a verdict only where there is something to say."""


class Contracts:
    """The contracts of one subject on one mechanism, as a run goes."""

    def __init__(self, bench: Bench, marks: Sequence[Mark] = (), *, backward: bool = False) -> None:
        """`marks` are those of known findings, whose breaches make way for others.

        With `backward`, gradients are asked for in other ways as well.
        """
        self.bench, self.marks, self.backward = bench, marks, backward
        self.mechanism, self.subject = bench.mechanism, bench.subject
        self.breaches: dict[str, tuple[Breach, Sample]] = {}
        """The first breach of each."""
        self.repeats = 0
        """Calls that were repeated."""
        self.passes = 0
        """Calls whose gradients were asked for in another way."""
        self.deadly = False
        """Whether a call with nothing but NaN ended its process, or hung."""

    @property
    def grades(self) -> Sequence[Grade]:
        """The claimed precision, and the looser ones."""
        return looser(self.bench.dtype, self.subject.claims.grade(self.bench.dtype))

    @property
    def broken(self) -> bool:
        """Whether one is broken that a subject has to keep."""
        return any(self.level(name) == "must" for name in self.breaches)

    def level(self, name: str) -> str:
        """Whether a contract is asked of the subject."""
        seeded = self.mechanism.random and "seed" in self.subject.claims.names
        lenient = name == "repeatable" and not self.subject.claims.deterministic and not seeded
        drawn = name in self.breaches and self.breaches[name][0].contract == DRAWN
        return "should" if lenient or drawn else "must"

    def shaped(self, outcome: Outcome, trial: Trial) -> None:
        """What an output of another shape breaks, besides the law that has met it."""
        if outcome.fault is not None and outcome.fault.kind == "misshapen":
            self.breach(Breach("shape", outcome.says), trial.sample)

    def watch(self, trial: Trial) -> None:
        """The contracts that the calls of a trial have broken."""
        for reply in (*trial.replies.values(), *trial.spent):
            for breach in reply.breaches:
                self.breach(breach, trial.sample)

    def breach(self, breach: Breach, sample: Sample) -> None:
        """Take note of a broken contract: of its first breach, but for one that weighs more."""
        if breach.contract == DRAWN and self.mechanism.random:
            return
        name = LASTING.get(breach.contract, breach.contract)
        found = self.breaches.get(name)
        weighs_more = found is not None and (
            found[0].contract == DRAWN != breach.contract
            or bool(self.finding(name, *found) and not self.finding(name, breach, sample))
        )
        if found is None or weighs_more:
            self.breaches[name] = (breach, sample)

    def finding(self, name: str, breach: Breach, sample: Sample) -> str:
        """The known finding that a breach belongs to; nothing if it is new."""
        shown = Outcome(Kind.REFUTED, np.inf, says=breach.says)
        return recognized(self.marks, self.bench, f"contract.{name}", shown, sample)

    def unheard(self, sample: Sample) -> None:
        """What has come to light in calls beside trials, as when conventions were found or a call was repeated."""
        for breach in noted(self.subject).values():
            self.breach(breach, sample)

    def repeat(self, trial: Trial, largest: Trial | None) -> None:
        """The same call again, all memory being poisoned: what differs is not repeatable, or was never written.

        New memory is filled with NaN, and so is what the subject keeps of its calls, by calls of the largest size and
        of this one in between.
        """
        try:
            first = trial.reply(trial.base)
            call = trial.call(trial.base)
        except Exception:
            return
        self.repeats += 1
        if isinstance(self.subject, DefinitionSubject):  # which has no memory of its own
            return
        if self.backward:
            self.pull(trial, first)
            if self.repeats == 1:
                self.pull_afterwards(trial, first)
        self.poison(trial if largest is None else largest)
        self.poison(trial)
        second = self.subject.call(replace(call, poisoned=True))
        for name, x in first.outputs.items():
            y = second.outputs.get(name)
            if y is None and second.fault is not None and not (trial.bench.pace.slow and second.fault.kind == "hung"):
                self.breach(Breach("repeatable", f"the same call again {_ended(second.fault)}"), trial.sample)
            if y is None:
                continue
            same, written = _compared(x, y) if y.shape == x.shape else (False, True)
            if not same and y.shape == x.shape:  # what the definition leaves open need not be written
                asked = ~_open(name, trial, y)
                same, written = _compared(x[asked], y[asked])
            if not written:
                self.breach(Breach("written", f"entries of {name!r} are not written"), trial.sample)
            elif not same:
                self.breach(Breach("repeatable", f"the same call gave a different {name!r}"), trial.sample)

    def pull(self, trial: Trial, first: Reply) -> None:
        """The gradients of a call once more: one of them alone, and those of a second backward pass.

        Other bits are wrong only where they are beyond the bounds, and a second pass may be refused.
        """
        interface = self.subject.interface if isinstance(self.subject, AdapterSubject) else None
        backward = interface.backward if interface else None
        known = [*backward.leaves.values()] if backward and backward.leaves else [*first.outputs]
        alone = [known[self.repeats % len(known)]] if len(known) > 1 else []
        grades = self.grades
        for manner in (*alone, AGAIN):
            reply = self.subject.call(replace(trial.call(trial.base), manner=manner))
            if reply.fault is not None and reply.fault.kind == "unsupported":
                continue
            self.passes += 1
            how = "a second backward pass" if manner == AGAIN else f"a backward pass for {manner!r} alone"
            if reply.fault is not None:
                self.breach(Breach("backward", f"{how} {_ended(reply.fault)}"), trial.sample)
                continue
            whole = replace(reply, outputs={**first.outputs, **reply.outputs})
            if is_bad(self.bench, grades, trial.sample, whole) and not is_bad(self.bench, grades, trial.sample, first):
                self.breach(Breach("backward", f"{how} gave a different {_other(first, whole)!r}"), trial.sample)

    def pull_afterwards(self, trial: Trial, first: Reply) -> None:
        """The gradients of a call in a new process, right after the same call without any.

        What is wrong or missing there counts if it is right in another new process without that call.
        """
        after = self._in_a_new_process(trial, AFTERWARDS)
        if after is None:
            return
        self.passes += 1
        if not self._is_wrong(trial, after) or self._is_wrong(trial, first):
            return
        without = self._in_a_new_process(trial, "")
        if without is None or self._is_wrong(trial, without):
            return
        says = f"gave a different {_other(first, after)!r}" if after.fault is None else _ended(after.fault)
        self.breach(Breach("backward", f"a backward pass after a call without gradients {says}"), trial.sample)

    def _in_a_new_process(self, trial: Trial, manner: str) -> Reply | None:
        """The gradients of a call as the first ones of a process; None where there can be no further process."""
        with in_another_process(self.subject) as is_new:
            return self.subject.call(replace(trial.call(trial.base), manner=manner)) if is_new else None

    def _is_wrong(self, trial: Trial, reply: Reply) -> bool:
        return reply.fault is not None or is_bad(self.bench, self.grades, trial.sample, reply)

    def poison(self, trial: Trial) -> None:
        """A call with NaN in place of every number; nothing is asked of it, and none follows one that has no end."""
        if self.deadly:
            return
        with contextlib.suppress(Exception):
            call = trial.call(trial.base)
            if trial.bench.pace.too_large(work(trial.mechanism, call, trial.sample.values)):
                return
            inputs = {name: _nothing_like(x) for name, x in call.inputs.items()}
            fault = self.subject.call(replace(call, inputs=inputs)).fault
            self.deadly = fault is not None and fault.kind in ABRUPT


def _compared(x: NDArray[Any], y: NDArray[Any]) -> tuple[bool, bool]:
    """Whether two results of one shape are the same, and whether all of the second was written, of poisoned memory."""
    real = y.dtype.kind == "f"
    same = np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    return same, same or not (real and bool(np.isnan(y).any()) and not bool(np.isnan(x).all()))


def _open(name: str, trial: Trial, y: NDArray[Any]) -> NDArray[np.bool_]:
    """The entries that hold poison, or an integer, where the definition is NaN, as it is where it says nothing."""
    held = np.isnan(y) if y.dtype.kind == "f" else np.ones(y.shape, bool)
    try:
        expected = np.asarray(trial.frames.exact(name, trial.base), float)
    except (SpecError, Declined):
        return np.zeros(y.shape, bool)
    return held & np.isnan(expected) if expected.shape == y.shape else np.zeros(y.shape, bool)


def _nothing_like(x: NDArray[Any]) -> NDArray[Any]:
    """NaN in place of every number; integers and booleans as they are."""
    return np.full_like(x, np.nan) if x.dtype.kind == "f" else x


def _other(first: Reply, second: Reply) -> str:
    """The output that is another one."""
    return next(
        name for name, x in first.outputs.items() if not np.array_equal(x, second.outputs[name], equal_nan=True)
    )


def _ended(fault: Fault) -> str:
    return f"raised {fault.says}" if fault.kind == "raised" else f"had no result: {fault.says}"
