"""The verdict of one law on one trial.

A law is first evaluated with nothing allowed to the subject but the rounding of its results; most laws hold even so,
and no bound is computed for them.
Where that fails, the bound of the claimed grade decides, and then that of looser grades: a law is refuted only if no
grade explains what was returned.
Integers and booleans have no precision: they are judged at the claimed grade alone, which says which of them
rounding leaves in doubt; a looser one, that leaves all of them in doubt, would explain anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ..execution.faults import Fault
from ..language.expressions import Expression
from ..language.scopes import Scope
from ..mechanisms.mechanism import Law, Mechanism
from ..numerics import budget
from ..numerics.comparing import Comparison, recording
from ..numerics.grades import Grade
from ..numerics.parts import absent
from ..numerics.truths import truth
from .bounds import Stray
from .environments import LawEnvironment
from .margins import Margin, margin_of
from .settling import Declined, Settled
from .trial import Faulted, Slow, Trial

VACUOUS = 0.1
"""A comparison says nothing when its bound is over this share of what is compared."""


class Kind(StrEnum):
    """How a law fared on one case."""

    HELD = "held"
    IDLE = "idle"
    """The case is not one of which the law speaks."""
    VACUOUS = "vacuous"
    """Every bound was too wide for the comparison to say anything."""
    DECLINED = "declined"
    SLOW = "slow"
    """The subject has no time for it."""
    REFUTED = "refuted"
    FAULTED = "faulted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A law on a case: `excess` is the largest error in units of the bound, `grade` the one that it was judged at."""

    kind: Kind
    excess: float = 0.0
    grade: Grade | None = None
    says: str = ""
    certain: bool = True
    """Of a refutation: whether it also exceeds the bound of the worst case."""
    fault: Fault | None = None
    settled: Settled | None = None
    claimed: float | None = None
    """The error in units of the bound that is claimed; None where rounding the result is all that was needed."""
    comparisons: Sequence[Comparison] = ()
    """What was compared by a law that holds."""
    kept: Margin | None = None
    """Its errors, where what was compared is no longer kept."""

    @property
    def margin(self) -> Margin | None:
        """The errors of a law that holds, entry by entry; None where no bound was needed."""
        return self.kept or margin_of(self.comparisons)

    @property
    def bad(self) -> bool:
        return self.kind in (Kind.REFUTED, Kind.FAULTED)

    @property
    def refusal(self) -> bool:
        """Whether there was an error in place of an answer."""
        return self.fault is not None and self.fault.kind == "raised"


@dataclass(frozen=True, slots=True)
class WorstEntry:
    """What was found at an entry, what was expected, and how many entries beside it are beyond their bounds."""

    found: Any
    expected: Any
    bound: float
    units: float
    where: tuple[int, ...]
    spoiled: int
    entries: int
    missed: Missed | None = None
    """Where the bound has the subject's own error in it: by how much it misses the definition on this case."""
    output: str = ""
    """The output that it is of, where only some entries of that were judged."""


@dataclass(frozen=True, slots=True)
class Missed:
    """The error of an output against the definition, in units of the bound."""

    units: float
    bound: float


def definition_law(mechanism: Mechanism) -> Law:
    """The law that every mechanism has: its outputs are those of its definition."""
    always = Expression("true", Scope())
    where = next(iter(mechanism.definition.values())).place if mechanism.definition else None
    return Law("definition", "Every output agrees with the definition.", {}, always, always, "must", "", (), where)


def judged(
    trial: Trial,
    law: Law,
    grades: Sequence[Grade],
    *,
    weighed: bool = True,
    at_once: bool = False,
    kind_alone: bool = False,
) -> Outcome:
    """How a law fares at the first of the grades that does not refute it, or at the last one.

    A refutation is compared with the worst case as well if it is to be `weighed`; else it counts as certain.
    With `at_once`, the law is not tried without bounds before: whether it is refuted is the same.
    With `kind_alone`, nobody asks by how much the definition is refuted: the worst case at the last grade, which allows
    more than all others, is tried first.
    Raises `SpecError` for a law that cannot be evaluated; a case that limits, ties or conditions make too large is left
    out.
    """
    try:
        with np.errstate(all="ignore"), budget.metered():
            outcome = _explained(trial, law, grades) if at_once else _judged(trial, law, grades, kind_alone)
            if weighed and outcome.kind is Kind.REFUTED:
                worst = evaluated(trial, law, outcome.grade, worst=True)
                return replace(outcome, certain=worst.kind is Kind.REFUTED)
            return outcome
    except budget.OverspentError as error:
        claims = trial.bench.subject.claims
        if not (claims.limits or claims.ties or claims.requires):
            raise
        return Outcome(Kind.IDLE, says=error.message)
    except Slow as answer:
        return Outcome(Kind.SLOW, says=str(answer))
    except Declined as answer:
        return Outcome(Kind.DECLINED, says=str(answer))
    except Faulted as answer:
        return Outcome(Kind.FAULTED, np.inf, says=str(answer), fault=answer.fault, settled=answer.settled)


def _judged(trial: Trial, law: Law, grades: Sequence[Grade], kind_alone: bool) -> Outcome:
    if trial.mechanism.discrete:
        return _explained(trial, law, grades[:1])
    outcome = evaluated(trial, law, None)
    if outcome.kind is not Kind.REFUTED:
        return replace(outcome, grade=grades[0])
    if kind_alone and law.name == "definition":  # of other laws, the bound of what is far off depends on the grade
        outcome = evaluated(trial, law, grades[-1], worst=True)
        if outcome.kind is Kind.REFUTED:
            return outcome
    return _explained(trial, law, grades)


def _explained(trial: Trial, law: Law, grades: Sequence[Grade]) -> Outcome:
    """The outcome at the first grade that does not refute the law; at the last one, if all of them do."""
    first = outcome = evaluated(trial, law, grades[0])
    for grade in grades[1:]:
        if outcome.kind is not Kind.REFUTED:
            break
        outcome = evaluated(trial, law, grade)
    return replace(outcome, claimed=first.excess)


def evaluated(trial: Trial, law: Law, grade: Grade | None, worst: bool = False) -> Outcome:
    """A law at one grade; at none, with nothing allowed but the rounding of results."""
    try:
        return _evaluated(trial, law, grade, worst)
    except Stray as answer:
        return Outcome(Kind.REFUTED, np.inf, grade, str(answer))


def _evaluated(trial: Trial, law: Law, grade: Grade | None, worst: bool) -> Outcome:
    if law.name == "definition":
        claim, records = _definition(trial, trial.mechanism.outputs, grade, worst)
    else:
        environment = LawEnvironment(trial, law, grade, worst)
        if not environment.concerned:
            return Outcome(Kind.IDLE)
        environment.claiming = True
        with recording() as records:
            claim = truth(law.holds(environment))
    if claim is None:
        return Outcome(Kind.DECLINED, says="every output is random")
    kind = Kind.REFUTED if claim.refuted else Kind.VACUOUS if grade and vacuous(records) else Kind.HELD
    return Outcome(kind, claim.worst, grade, comparisons=records if kind is Kind.HELD else ())


def is_right(trial: Trial, output: str, grade: Grade) -> bool:
    """Whether one output of a case that was answered agrees with the definition."""
    with np.errstate(all="ignore"), budget.metered(), suppress(Stray):
        claim, _ = _definition(trial, (output,), grade, worst=False)
        return claim is not None and not claim.refuted
    return False


def _definition(trial: Trial, outputs: Iterable[str], grade: Grade | None, worst: bool) -> tuple[Any, list[Comparison]]:
    """Each of some outputs that the subject returns against the definition, in normal form."""
    claim: Any = None
    m, base, frames = trial.mechanism, trial.base, trial.frames
    with recording() as records:
        for name in outputs:
            if name in m.random:
                if name == m.outputs[0]:
                    trial.observed(name, base)
                continue
            try:
                y = trial.number(name, base, grade, worst=worst, fair=False)
            except Declined:
                if name == m.outputs[0]:
                    raise
                continue
            same = truth(frames.normal(name, y) == frames.normal(name, frames.exact(name, base))).over(np.all, None)
            claim = same if claim is None else claim & same
    return claim, records


def vacuous(records: Sequence[Comparison]) -> bool:
    """Whether comparisons were made and none of them could have told a thing from another."""
    return bool(records) and all(_blunt(record) for record in records)


def _blunt(record: Comparison) -> bool:
    if absent(record.radius) or not np.size(record.radius):
        return False
    sizes = [np.abs(side.value[np.isfinite(side.value)]).max(initial=0.0) for side in (record.left, record.right)]
    typical = np.median(np.nan_to_num(record.radius, nan=np.inf, posinf=np.inf))
    return bool(typical > VACUOUS * max(sizes)) and (max(sizes) > 0 or bool(np.isinf(typical)))
