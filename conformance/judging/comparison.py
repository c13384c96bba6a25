"""Two subjects on the same cases: whether both are right, whether their bits are the same, and why they are not.

Both are right within their bounds, so that what they give can only differ by rounding, by words of conventions that
they follow, and where the definition leaves an entry open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..cases.plans import scenarios_of
from ..cases.samples import Case, Sample, Unfit
from ..errors import SpecError
from ..execution.calling import Reply
from ..mechanisms.mechanism import Mechanism
from ..numerics import budget
from ..numerics.grades import LADDER, Grade
from ..numerics.numbers import Number
from .bench import Bench
from .bounds import Stray
from .conventions import WORD_ENTRIES
from .judge import Kind, definition_law, evaluated, judged
from .settling import Declined
from .shrinking import Shrunk, shrink
from .trial import Faulted, Trial

How = Literal["same", "rounding", "convention", "open", "wrong", "refused"]
"""How two answers to one case differ: in nothing, within their bounds, by a convention, where the definition leaves an
entry open; or one of them is wrong, or refused."""
TRIES, SECONDS = 120, 2.0
"""What may be spent on making a case small."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a subject made of a case, and whether that is right."""

    reply: Reply
    right: bool

    @property
    def refused(self) -> str:
        """What was said in refusal; nothing where it was not refused."""
        fault = self.reply.fault
        return fault.says or "refuses it" if fault is not None and fault.kind == "unsupported" else ""


@dataclass(slots=True)
class Watch:
    """Takes note of the answers of one run; it is handed to a `Request`."""

    answers: dict[str, tuple[Sample, Answer]] = field(default_factory=dict)

    def __call__(self, trial: Trial, held: bool) -> None:
        reply = trial.replies.get(trial.base.key)
        if reply is not None and (reply.fault is None or reply.fault.kind != "slow"):
            self.answers[trial.sample.key] = (trial.sample, Answer(reply, held))


@dataclass(frozen=True, slots=True)
class Both:
    """Two subjects on one mechanism and dtype, with the words that each follows, and the grade that explains each."""

    benches: tuple[Bench, Bench]
    grades: tuple[Grade, Grade]

    @property
    def mechanism(self) -> Mechanism:
        return self.benches[0].mechanism

    @property
    def words(self) -> list[str]:
        """The conventions in which they differ."""
        first, second = (bench.words for bench in self.benches)
        return [name for name in self.mechanism.conventions if first[name] != second[name]]


@dataclass(frozen=True, slots=True)
class Compared:
    """One case: how the answers differ, in which output, by which conventions, and by what part of their bounds."""

    sample: Sample
    answers: tuple[Answer, Answer]
    how: How
    output: str = ""
    conventions: tuple[str, ...] = ()
    apart: float = 0.0

    @property
    def answered(self) -> bool:
        """Whether both gave a result."""
        return all(answer.reply.fault is None for answer in self.answers)

    @property
    def same_bits(self) -> bool:
        return self.how == "same"


def compared(both: Both, first: Watch, second: Watch) -> list[Compared]:
    """Every case to which both have said something."""
    found = []
    for key, (sample, one) in first.answers.items():
        if key in second.answers:
            found.append(_compared(both, sample, (one, second.answers[key][1])))
    return found


def _compared(both: Both, sample: Sample, answers: tuple[Answer, Answer]) -> Compared:
    if any(answer.refused for answer in answers):
        return Compared(sample, answers, "refused")
    if any(answer.reply.fault is not None for answer in answers):
        return Compared(sample, answers, "wrong")
    outputs = [answer.reply.outputs for answer in answers]
    named = [name for name in both.mechanism.outputs if name in outputs[0] and name in outputs[1]]
    differing = [n for n in named if n not in both.mechanism.random and not same_bits(outputs[0][n], outputs[1][n])]
    if not differing:
        return Compared(sample, answers, "same")
    if not all(answer.right for answer in answers):
        return Compared(sample, answers, "wrong", differing[0])
    try:
        with np.errstate(all="ignore"), budget.metered():
            return _right(both, sample, answers, differing)
    except (Declined, Faulted, Stray, SpecError):
        return Compared(sample, answers, "rounding", differing[0])


def _right(both: Both, sample: Sample, answers: tuple[Answer, Answer], differing: Sequence[str]) -> Compared:
    """How two right answers differ."""
    trials = [_trial(bench, sample, answer) for bench, answer in zip(both.benches, answers, strict=True)]
    conventions = tuple(name for name in both.words if _decides(both, sample, name))
    most, worst = 0.0, differing[0]
    for name in differing:
        numbers = [
            trial.number(name, trial.base, grade, fair=False) for trial, grade in zip(trials, both.grades, strict=True)
        ]
        apart, free = _apart(*numbers)
        if conventions and apart > 1:
            return Compared(sample, answers, "convention", name, conventions, apart)
        if free or apart > 1:
            return Compared(sample, answers, "open", name)
        if apart > most:
            most, worst = apart, name
    return Compared(sample, answers, "rounding", worst, apart=most)


def _trial(bench: Bench, sample: Sample, answer: Answer) -> Trial:
    """The trial of a case that was answered."""
    trial = Trial(bench, sample)
    trial.replies[trial.base.key] = answer.reply
    return trial


def _decides(both: Both, sample: Sample, convention: str) -> bool:
    """Whether the words of a convention that they follow give different values on a case."""
    bench, other = both.benches
    words = {**bench.words, convention: other.words[convention]}
    swapped = Bench(bench.subject, bench.mechanism, bench.dtype, bench.device, words)
    frames = [Trial(each, sample).frames for each in (bench, swapped)]
    base = frames[0].base
    return any(
        not same_bits(*(np.asarray(each.exact(name, base)) for each in frames))
        for name in both.mechanism.outputs
        if name not in both.mechanism.random
    )


def _apart(first: Any, second: Any) -> tuple[float, bool]:
    """The largest distance in units of both bounds, and whether entries that are left open are not the same."""
    x, y = (side.value if isinstance(side, Number) else np.asarray(side, float) for side in (first, second))
    if np.shape(x) != np.shape(y):
        return np.inf, False
    radius = sum(np.asarray(side.radius) if isinstance(side, Number) else 0.0 for side in (first, second))
    radius = np.broadcast_to(np.asarray(radius, float), np.shape(x))
    alike = (x == y) | (np.isnan(x) & np.isnan(y))
    distance = np.where(alike, 0.0, np.abs(x - y))
    distance = np.where(np.isnan(distance), np.inf, distance)
    open_ = ~np.isfinite(radius)
    units = np.where(alike | open_, 0.0, distance / np.maximum(radius, np.finfo(float).tiny))
    return float(np.max(units, initial=0.0)), bool((open_ & ~alike).any())


def same_bits(x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether two outputs are the same to the bit; all NaN are alike."""
    if x.shape != y.shape:
        return False
    if x.dtype.kind != "f" or y.dtype.kind != "f":
        return bool(np.array_equal(x, y))
    return bool((((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))).all())


def tightest(bench: Bench, watch: Watch, found: Grade) -> Grade:
    """The tightest grade at which the definition explains every right answer, where `found` does, too."""
    ladder, law = LADDER[bench.dtype], definition_law(bench.mechanism)
    if bench.mechanism.discrete or found not in ladder:
        return found
    answered = [(s, a) for s, a in watch.answers.values() if a.right and a.reply.fault is None]
    for grade in ladder[: ladder.index(found)] if answered else ():
        with np.errstate(all="ignore"), budget.metered():
            if all(_explained(_trial(bench, sample, answer), law, grade) for sample, answer in answered):
                return grade
    return found


def _explained(trial: Trial, law: Any, grade: Grade) -> bool:
    try:
        return evaluated(trial, law, grade).kind is not Kind.REFUTED
    except (Declined, Faulted, SpecError):
        return True


def smallest(both: Both, found: Compared) -> tuple[Compared, Shrunk]:
    """The smallest case near one that was found on which the answers differ in the same way."""
    last = [found]

    def differs(case: Case) -> Sample | None:
        try:
            sample = Sample(both.mechanism, case, both.benches[0].dtype, claims=both.benches[0].subject.claims)
            answers = tuple(_answer(bench, sample) for bench in both.benches)
        except (Unfit, SpecError, Declined):
            return None
        other = _compared(both, sample, (answers[0], answers[1]))
        if (other.how, other.conventions) != (found.how, found.conventions) or _sides(other) != _sides(found):
            return None
        last[0] = other
        return sample

    with both.benches[0].subject.session(), both.benches[1].subject.session():
        shrunk = shrink(both.mechanism, found.sample, differs, tries=TRIES, seconds=SECONDS)
    return last[0], shrunk


def on_a_scenario(both: Both, convention: str) -> tuple[Both, Compared] | None:
    """A scenario of the operator that shows a convention in which they differ, where the cases of a run do not.

    With it comes what they are on its mechanism, which may be another one of the operator.
    """
    first, second = both.benches
    with first.subject.session(), second.subject.session():
        for sample in scenarios_of(both.mechanism.stating, first.subject.claims, seed=0, dtype=first.dtype):
            benches = replace(first, mechanism=sample.mechanism), replace(second, mechanism=sample.mechanism)
            there = replace(both, benches=benches)
            if sample.entries > WORD_ENTRIES or not _decides(there, sample, convention):
                continue
            try:
                answers = _answer(benches[0], sample), _answer(benches[1], sample)
                found = _compared(there, sample, answers)
            except (SpecError, Declined):
                continue
            if found.how == "convention" and convention in found.conventions:
                return there, found
    return None


def _sides(found: Compared) -> tuple[tuple[bool, bool], ...]:
    """Of each answer, whether it is right, and whether it is a result."""
    return tuple((answer.right, answer.reply.fault is None) for answer in found.answers)


def _answer(bench: Bench, sample: Sample) -> Answer:
    """What a subject makes of a case; `Declined` for one that it does not claim."""
    trial = Trial(bench, sample)
    outcome = judged(trial, definition_law(bench.mechanism), [bench.subject.claims.grade(bench.dtype)], weighed=False)
    reply = trial.replies.get(trial.base.key)
    if reply is None:
        raise Declined(outcome.says)
    return Answer(reply, not outcome.bad)


def entry(found: Compared) -> tuple[str, Any, Any] | None:
    """The place at which two outputs are furthest apart, and what stands there in either; None where there is none."""
    if not found.output or not found.answered:
        return None
    x, y = (np.asarray(answer.reply.outputs[found.output]) for answer in found.answers)
    if x.shape != y.shape:
        return f"the shape of {found.output}", str(list(x.shape)), str(list(y.shape))
    with np.errstate(all="ignore"):
        distance = np.abs(x.astype(float) - y.astype(float))
    distance = np.where(np.isnan(x.astype(float)) != np.isnan(y.astype(float)), np.inf, np.nan_to_num(distance))
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), x.shape)) if x.size else ()
    place = found.output + (f"[{', '.join(map(str, index))}]" if index else "")
    return place, x[index].item(), y[index].item()
