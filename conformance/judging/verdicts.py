"""The cells of a run: a verdict for each law, reject, convention and contract."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..cases.samples import Case, Sample
from ..errors import SpecError
from ..execution.calling import ABRUPT, Call
from ..mechanisms.mechanism import Reject
from ..numerics import budget
from ..numerics.grades import looser
from ..numerics.truths import truth
from .cells import PARAMETERS, Cell, Failure, Request, Result, Tally, law_names
from .contracts import CONTRACTS, Contracts
from .conventions import Finding, explained, identified, words_of
from .independence import Elsewhere, Known, examined
from .judge import Kind, Outcome, definition_law
from .refusals import Refusals
from .trial import Bench, Declined, Trial

LARGE = 60_000
"""Entries of a case beyond which it serves the definition alone."""
BEFORE = 64
"""Cases that are kept with a failure, for those on which it fails after others only."""
HANGS = 3
"""Calls that may hang before a group is given up."""


def unclaimed(request: Request, reason: str) -> Iterator[Cell]:
    """The cells of a mechanism that a subject does not claim."""
    for name in law_names(request.mechanism):
        if request.wants(name):
            yield _cell(request, name, "must", "not_declared", says=reason)
    yield from parameter_cells(request)


def parameter_cells(request: Request) -> Iterator[Cell]:
    """The verdict on parameters that no input or option is, where it is asked for: a gate must know what it gates."""
    if request.laws is not None and PARAMETERS in request.laws:
        verdict = "fail" if request.profile.strict else "not_tested"
        yield _cell(request, PARAMETERS, "must", verdict, says="; ".join(request.subject.claims.untested))


class Course:
    """What a run has seen so far, and the verdicts that follow from it."""

    def __init__(self, request: Request, found: Mapping[str, Finding]) -> None:
        self.request, self.found = request, found
        self.mechanism, self.subject = request.mechanism, request.subject
        words = words_of(self.mechanism, found)
        self.bench = Bench(self.subject, self.mechanism, request.dtype, request.device, words)
        self.claim = self.subject.claims.grade(request.dtype)
        self.grades = looser(request.dtype, self.claim)
        self.level = self.claim
        self.imprecise: Failure | None = None
        laws = [definition_law(self.mechanism), *self.mechanism.laws.values()]
        self.tallies = [Tally(law) for law in laws if request.wants(law.name)]
        self.definition = next((t for t in self.tallies if t.law.name == "definition"), None)
        self.contracts = Contracts(self.bench)
        self.known: list[Known] = []
        """Cases that the subject gets right, some of which are made again elsewhere."""
        self.calls = self.answered = self.cases = 0
        self.tried: dict[str, Case] = {}
        """The cases that were tried so far, by their keys."""
        self.late = False
        """Whether time was up."""
        self.refusals = Refusals()

    def before(self, sample: Sample) -> tuple[Case, ...]:
        """The last cases beside that of a sample that were tried so far."""
        return tuple(case for key, case in self.tried.items() if key != sample.key)[-BEFORE:]

    @property
    def given_up(self) -> bool:
        return self.bench.faults["hung"] >= HANGS

    @property
    def settled(self) -> bool:
        """Whether there is a violation, and nothing more is to be known."""
        imprecise = self.imprecise is not None and self.request.wants("contract.precision")
        broken = any(t.violated for t in self.tallies)
        return self.request.first and (broken or imprecise or self.contracts.broken)

    @property
    def partial(self) -> bool:
        """Whether cases are left out."""
        return self.late or self.given_up or self.settled

    @property
    def cut_short(self) -> str:
        """Why cases were left out; nothing if none were."""
        if self.given_up:
            return f"given up after {HANGS} calls that hung"
        return "the first violation ended the run" if self.settled else "time was up" if self.late else ""

    @property
    def too_slow(self) -> str:
        """Why there was no time for a case of the definition, or of a law where it is not asked for."""
        asked = self.tallies if self.definition is None else [self.definition]
        return next((tally.slow for tally in asked if tally.slow), "")

    def result(self, samples: Sequence[Sample], started: float) -> Result:
        """All that has come of it; calls that are to be refused are made from the samples."""
        refusal = self.wholesale_refusal() or self.beyond_declaration()
        if refusal is not None:
            return Result(tuple(unclaimed(self.request, refusal)), self.found)
        for sample in samples[:1]:
            self.contracts.unheard(sample)
        cells = [
            *self.law_cells(),
            *self.reject_cells(samples),
            *self.convention_cells(),
            *self.contract_cells(),
            *parameter_cells(self.request),
        ]
        return Result(
            tuple(cells),
            self.found,
            self.level,
            self.calls,
            self.cases,
            time.perf_counter() - started,
            self.bench,
            self.grades,
            self.partial,
            self.refusals,
            self.cut_short or self.too_slow,
        )

    def cell(self, law: str, level: str, verdict: str, **more: Any) -> Cell:
        return _cell(self.request, law, level, verdict, **more)

    def wholesale_refusal(self) -> str | None:
        """Why a function that was merely pointed at refuses all of a further mechanism, if it does.

        To refuse is not to be wrong; nobody has said that it can do this.
        """
        if self.subject.claims.declared or self.mechanism.operator == self.mechanism.name:
            return None
        definition = self.definition
        if definition is None or definition.failure is None or definition.counts[Kind.HELD]:
            return None
        outcome = definition.failure.outcome
        return f"refuses it: {outcome.says}" if outcome.refusal else None

    def beyond_declaration(self) -> str | None:
        """Why no case meets the declared conditions, if none does."""
        conditions = self.subject.claims.requires
        if not conditions or self.cases or self.partial or self.request.only:
            return None
        return f"no case meets what is required: {', '.join(condition.text for condition in conditions)}"

    def law_cells(self) -> Iterator[Cell]:
        for tally in self.tallies:
            verdict, says = tally.verdict()
            if verdict == "not_tested":
                says = self.cut_short or says
            failure = tally.shown
            cases = tally.counts[Kind.HELD] + (failure is not None)
            worst = failure.outcome.excess if failure else tally.worst
            yield self.cell(
                tally.law.name,
                tally.level,
                verdict,
                cases=cases,
                worst=worst,
                says=says,
                failure=failure,
                vacuous=tally.counts[Kind.VACUOUS],
            )

    def reject_cells(self, samples: Sequence[Sample]) -> Iterator[Cell]:
        for reject in self.mechanism.rejects.values():
            if self.request.wants(reject.name):
                yield self.reject_cell(reject, samples)

    def reject_cell(self, reject: Reject, samples: Sequence[Sample]) -> Cell:
        """Whether a subject refuses what it is to refuse, on the first cases from which the call can be made."""
        tried, says = 0, self.cut_short or "no case reached its condition"
        for sample in samples:
            if sample.entries > LARGE or tried >= self.request.profile.admitted:
                continue
            trial = Trial(self.bench, sample)
            call = _wrong_call(trial, reject)
            if isinstance(call, str):
                says = call
            if not isinstance(call, Call):
                continue
            if not trial.answered:
                says = "no case is taken from which the call could be made"
                continue
            tried += 1
            reply = self.subject.call(call)
            if reply.fault is not None and reply.fault.kind not in ABRUPT:
                continue
            says = f"{reply.fault.says}, in place of an error" if reply.fault else "the call was accepted"
            shown = Outcome(Kind.FAULTED if reply.fault else Kind.REFUTED, np.inf, says=says, fault=reply.fault)
            failure = Failure(reject.name, shown, sample, sample)
            verdict = "error" if reply.fault else "fail"
            return self.cell(reject.name, reject.level, verdict, cases=tried, says=says, failure=failure)
        if tried:
            return self.cell(reject.name, reject.level, "pass", cases=tried)
        verdict = "not_declared" if says.startswith("does not") else "not_tested"
        return self.cell(reject.name, reject.level, verdict, says=says)

    def convention_cells(self) -> Iterator[Cell]:
        for name in law_names(self.mechanism):
            if name.startswith("convention.") and self.request.wants(name):
                yield self.convention_cell(name, self.found[name.removeprefix("convention.")])

    def convention_cell(self, law: str, finding: Finding) -> Cell:
        """Whether a convention is known, and the same for all dtypes."""
        if finding.how == "declared":
            return self.cell(law, "must", "pass", says=f"declared: {finding.word}")
        if finding.how == "untold":
            return self.cell(law, "must", "not_tested", says="no case tells its words apart")
        first = self.subject.claims.dtypes[0]
        if finding.how == "unexplained":
            says = f"no word explains all outputs; {finding.word} explains {finding.agreed} of {finding.cases} cases"
            says += f": {finding.mixed}" if finding.mixed else ""
            refuted = next((t for t in self.tallies if t.violated), None)
            if refuted is not None:
                return self.cell(law, "must", "not_tested", says=f"follows from {refuted.law.name}: {says}")
            failure = self.against(law, finding.convention, finding.word, says)
            return self.cell(law, "must", "fail", cases=finding.cases, says=says, failure=failure)
        other = identified(self.subject, self.mechanism.stating, first, self.request.device)
        known = other[finding.convention]
        if known.how == "observed" and known.word != finding.word:
            says = f"follows {known.word} in {first}, but {finding.word} in {self.request.dtype}"
            failure = self.against(law, finding.convention, known.word, says)
            return self.cell(law, "must", "fail", cases=finding.cases, says=says, failure=failure)
        verdict = "fail" if self.request.profile.strict else "pass"
        says = f"observed: {finding.word}" + ("; a gate declares it" if verdict == "fail" else "")
        return self.cell(law, "must", verdict, cases=finding.cases, says=says)

    def against(self, law: str, convention: str, word: str, says: str) -> Failure | None:
        """A case that a word of a convention does not explain."""
        operator, r = self.mechanism.stating, self.request
        known = words_of(self.mechanism, self.found)
        for sample, words in explained(r.subject, operator, r.dtype, r.device, convention, known):
            if word not in words:
                return Failure(law, Outcome(Kind.REFUTED, np.inf, says=says), sample, sample)
        return None

    def contract_cells(self) -> Iterator[Cell]:
        for name in CONTRACTS:
            law = f"contract.{name}"
            if not self.request.wants(law):
                continue
            if name == "precision":
                yield self.precision_cell(law)
            elif name == "independence":
                yield self.independence_cell(law)
            else:
                yield self.contract_cell(name, law)

    def contract_cell(self, name: str, law: str) -> Cell:
        level, cases = self.contracts.level(name), self.answered
        if name in ("repeatable", "written"):
            cases = self.contracts.repeats
        if name in self.contracts.breaches:
            breach, sample = self.contracts.breaches[name]
            shown = Outcome(Kind.REFUTED, np.inf, says=breach.says)
            failure = Failure(law, shown, sample, sample, before=self.before(sample))
            return self.cell(law, level, "fail", cases=cases, says=breach.says, failure=failure)
        return self.cell(law, level, "pass" if cases else "not_tested", cases=cases)

    def independence_cell(self, law: str) -> Cell:
        """Whether answers are the same elsewhere; of one that is wrong here already it is not asked."""
        if "state" in self.contracts.breaches:  # elsewhere, nothing is set back
            return self.cell(law, "must", "not_tested", says="it is asked of what leaves its process as it was")
        wrong = any(tally.violated for tally in self.tallies)
        found = (
            Elsewhere(says="it is asked of right answers") if wrong else examined(self.bench, self.grades, self.known)
        )
        if found.broken_on is None:
            return self.cell(law, "must", "pass" if found.cases else "not_tested", cases=found.cases, says=found.says)
        sample = found.broken_on
        failure = Failure(law, Outcome(Kind.REFUTED, np.inf, says=found.says), sample, sample)
        return self.cell(law, "must", "fail", cases=found.cases, says=found.says, failure=failure)

    def precision_cell(self, law: str) -> Cell:
        if any(t.violated for t in self.tallies):
            return self.cell(law, "must", "not_tested", says="no grade explains what was returned")
        tried = sum(t.counts[Kind.HELD] for t in self.tallies)
        if self.imprecise is None:
            return self.cell(law, "must", "pass" if tried else "not_tested", cases=tried)
        says = f"behaves as {self.level}, claims {self.claim}"
        return self.cell(
            law,
            "must",
            "fail",
            cases=tried,
            worst=self.imprecise.outcome.excess,
            says=says,
            failure=replace(self.imprecise, law=law),
        )


def _cell(request: Request, law: str, level: str, verdict: str, **more: Any) -> Cell:
    r = request
    m = r.mechanism
    return Cell(r.subject.name, m.operator, m.name, law, level, r.dtype, r.device, verdict, **more)


def _wrong_call(trial: Trial, reject: Reject) -> Call | str | None:
    """The call that is to be refused, or why there is none."""
    frame = trial.base_frame()
    with np.errstate(all="ignore"), budget.metered():
        if not truth(reject.when(frame)).sure:
            return None
        replaced = {name: expression(frame) for name, expression in reject.call.items()}
    settled = trial.settle(replaced)
    if trial.refused(settled) is None:
        raise SpecError(
            f"{trial.mechanism.address(reject.name)}: the definition does not refuse the call", reject.place
        )
    try:
        return trial.call(settled, wrong=True)
    except Declined as answer:
        return str(answer)
    except SpecError:  # its sizes contradict one another, as they are to
        return None
