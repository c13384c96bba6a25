"""The cells of a run: a verdict for each law, reject, convention and contract."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..cases.samples import Sample
from ..errors import SpecError
from ..execution.calling import Call, Reply
from ..execution.faults import ABRUPT
from ..mechanisms.layouts import MisfitError
from ..mechanisms.mechanism import Reject
from ..numerics import budget
from ..numerics.truths import truth
from ..subjects.subject import AdapterSubject, Subject
from .announced import layout_told
from .cells import BACKWARD, LAYOUT, PARAMETERS, Cell, Failure, Request, Result, every_name, law_names
from .contracts import CONTRACTS
from .conventions import Finding, explained, identified, words_of
from .course import Course
from .independence import Elsewhere, examined
from .judge import Kind, Outcome
from .recognition import recognized
from .settling import Declined
from .trial import Trial

LAW_ENTRIES = 60_000
"""Entries of a case beyond which it serves the definition alone."""


def unclaimed(request: Request, reason: str) -> Iterator[Cell]:
    """The cells of a mechanism that a subject does not claim."""
    for name in _all_names(request):
        if request.wants(name):
            yield _cell(request, name, "must", "not_declared", says=reason)
    yield from parameter_cells(request)
    yield from layout_cells(request)


def _all_names(request: Request) -> list[str]:
    """Everything that gets a verdict under a profile."""
    return (every_name if request.profile.large else law_names)(request.mechanism)


def parameter_cells(request: Request) -> Iterator[Cell]:
    """The verdict on parameters that no input or option is, where it is asked for: a gate must know what it gates."""
    if request.laws is not None and PARAMETERS in request.laws:
        verdict = "fail" if request.profile.strict else "not_tested"
        yield _cell(request, PARAMETERS, "must", verdict, says="; ".join(request.subject.claims.untested))


def layout_cells(request: Request) -> Iterator[Cell]:
    """The verdict on the layout, where it is asked for: a gate declares it."""
    if request.laws is not None and LAYOUT in request.laws:
        says = layout_told(request.subject)
        yield _cell(request, LAYOUT, "must", "fail" if says else "pass", says=says)


def unread(request: Request) -> Iterator[Cell]:
    """The cells of a run that does not begin, for nobody has declared the layout that is read."""
    for name in _all_names(request):
        if request.wants(name):
            yield _cell(request, name, "must", "not_tested", says="the layout is not declared")
    if request.laws is not None and PARAMETERS in request.laws:
        yield _cell(request, PARAMETERS, "must", "not_tested", says="the layout is not declared")
    yield from layout_cells(request)


class Verdicts:
    """The cells that follow from what a run has seen."""

    def __init__(self, seen: Course) -> None:
        self.seen, self.request, self.mechanism, self.subject = seen, seen.request, seen.mechanism, seen.subject

    def result(self, samples: Sequence[Sample], started: float) -> Result:
        """All that has come of it; calls that are to be refused are made from the samples."""
        refusal = self.wholesale_refusal() or self.beyond_declaration()
        if refusal is not None:
            return Result(tuple(unclaimed(self.request, refusal)), self.seen.found)
        for sample in samples[:1]:
            self.seen.contracts.unheard(sample)
        cells = [
            *self.law_cells(),
            *self.reject_cells(samples),
            *self.convention_cells(),
            *self.contract_cells(),
            *parameter_cells(self.request),
            *layout_cells(self.request),
        ]
        return Result(
            tuple(cells),
            self.seen.found,
            self.seen.level,
            self.seen.calls,
            self.seen.cases,
            time.perf_counter() - started,
            self.seen.bench,
            self.seen.grades,
            self.seen.partial,
            self.seen.refusals,
            self.seen.cut_short or self.seen.too_slow,
            self.seen.outcomes,
            self.request.marks,
            frozenset(self.seen.met),
            times=tuple(self.seen.seconds),
        )

    def cell(self, law: str, level: str, verdict: str, **more: Any) -> Cell:
        return _cell(self.request, law, level, verdict, **more)

    def wholesale_refusal(self) -> str | None:
        """Why a function that was merely pointed at refuses all of a further mechanism, if it does.

        To refuse is not to be wrong; nobody has said that it can do this.
        """
        if self.subject.claims.declared or self.mechanism.operator == self.mechanism.name:
            return None
        definition = self.seen.definition
        if definition is None or definition.failure is None or definition.counts[Kind.HELD]:
            return None
        outcome = definition.failure.outcome
        return f"refuses it: {outcome.says}" if outcome.refusal else None

    def beyond_declaration(self) -> str | None:
        """Why no case meets the declared conditions, if none does."""
        conditions = self.subject.claims.requires
        if not conditions or self.seen.cases or self.seen.partial or self.request.only or self.request.large_alone:
            return None
        return f"no case meets the requirements: {', '.join(condition.text for condition in conditions)}"

    def law_cells(self) -> Iterator[Cell]:
        for tally in self.seen.tallies:
            verdict, says = tally.verdict()
            if verdict == "not_tested":
                says = self.seen.cut_short or says
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
                claimed=tally.claimed,
                margins=tally.margins,
            )

    def reject_cells(self, samples: Sequence[Sample]) -> Iterator[Cell]:
        for reject in self.mechanism.rejects.values():
            if self.request.wants(reject.name):
                yield self.reject_cell(reject, samples)

    def reject_cell(self, reject: Reject, samples: Sequence[Sample]) -> Cell:
        """Whether a subject refuses what it is to refuse, on the first cases from which the call can be made."""
        tried, says = 0, self.seen.cut_short or "no case reached its condition"
        known: Failure | None = None
        for sample in samples:
            if self.seen.given_up or self.seen.settled:
                break
            if sample.entries > LAW_ENTRIES or tried >= self.request.profile.admitted:
                continue
            trial = Trial(self.seen.bench, sample)
            call = wrong_call(trial, reject)
            if isinstance(call, str):
                says = call
            if not isinstance(call, Call):
                continue
            if not trial.answered:
                says = "no accepted case allows this call"
                continue
            if unsaid := _unsaid(self.subject, call):
                says = unsaid
                continue
            tried += 1
            reply = self.subject.call(call)
            if reply.fault is not None and reply.fault.kind not in ABRUPT:
                continue
            failure = self.unrefused(reject, reply, sample)
            if not failure.finding:
                return self.rejected(reject, tried, failure)
            known = known or failure
        if known is not None:
            return self.rejected(reject, tried, known)
        if tried:
            return self.cell(reject.name, reject.level, "pass", cases=tried)
        verdict = "not_declared" if says.startswith("does not") else "not_tested"
        return self.cell(reject.name, reject.level, verdict, says=says)

    def unrefused(self, reject: Reject, reply: Reply, sample: Sample) -> Failure:
        """The failure to refuse a call that was made of a sample."""
        says = f"{reply.fault.says}, instead of an error" if reply.fault else "the call was accepted"
        shown = Outcome(Kind.FAULTED if reply.fault else Kind.REFUTED, np.inf, says=says, fault=reply.fault)
        failure = Failure(reject.name, shown, sample, sample)
        return replace(failure, finding=self.finding(reject.name, failure))

    def rejected(self, reject: Reject, tried: int, failure: Failure) -> Cell:
        """The verdict on calls that were not refused."""
        verdict, says = "error" if failure.outcome.fault else "fail", failure.outcome.says
        return self.cell(reject.name, reject.level, verdict, cases=tried, says=says, failure=failure)

    def convention_cells(self) -> Iterator[Cell]:
        for name in law_names(self.mechanism):
            if name.startswith("convention.") and self.request.wants(name):
                yield self.convention_cell(name, self.seen.found[name.removeprefix("convention.")])

    def convention_cell(self, law: str, finding: Finding) -> Cell:
        """Whether a convention is known, and the same for all dtypes."""
        if finding.how == "declared":
            return self.cell(law, "must", "pass", says=f"declared: {finding.word}")
        if finding.how == "untold":
            return self.cell(law, "must", "not_tested", says="no case distinguishes its words")
        first = self.subject.claims.dtypes[0]
        if finding.how == "unexplained":
            says = (
                f"no convention explains all outputs; {finding.word} explains {finding.agreed} of {finding.cases} cases"
            )
            says += f": {finding.mixed}" if finding.mixed else ""
            refuted = next((t for t in self.seen.tallies if t.violated), None)
            if refuted is not None:
                return self.cell(law, "must", "not_tested", says=f"follows from {refuted.law.name}: {says}")
            failure = self.against(law, finding.convention, finding.word, says)
            return self.cell(law, "must", "fail", cases=finding.cases, says=says, failure=failure)
        other = identified(self.subject, self.mechanism.stating, first, self.request.device)
        known = other[finding.convention]
        if known.how == "observed" and known.word != finding.word:
            says = f"follows {known.word} in {first}, but {finding.word} in {self.request.dtype}"
            failure = self.against(law, finding.convention, known.word, says)
            if failure is not None:  # a word that leaves something open explains what a stricter one does
                return self.cell(law, "must", "fail", cases=finding.cases, says=says, failure=failure)
        verdict = "fail" if self.request.profile.strict else "pass"
        says = f"observed: {finding.word}" + ("; a gate declares it" if verdict == "fail" else "")
        return self.cell(law, "must", verdict, cases=finding.cases, says=says)

    def against(self, law: str, convention: str, word: str, says: str) -> Failure | None:
        """A case that a word of a convention does not explain."""
        operator, r = self.mechanism.stating, self.request
        known = words_of(self.mechanism, self.seen.found)
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
        if self.seen.contracts.backward:
            yield self.contract_cell("backward", BACKWARD)

    def contract_cell(self, name: str, law: str) -> Cell:
        level, cases = self.seen.contracts.level(name), self.seen.answered
        if name in ("repeatable", "written"):
            cases = self.seen.contracts.repeats
        elif name == "backward":
            cases = self.seen.contracts.passes
        if name in self.seen.contracts.breaches:
            breach, sample = self.seen.contracts.breaches[name]
            shown = Outcome(Kind.REFUTED, np.inf, says=breach.says)
            finding = self.seen.contracts.finding(name, breach, sample)
            failure = Failure(law, shown, sample, sample, before=self.seen.before(sample), finding=finding)
            return self.cell(law, level, "fail", cases=cases, says=breach.says, failure=failure)
        return self.cell(law, level, "pass" if cases else "not_tested", cases=cases)

    def independence_cell(self, law: str) -> Cell:
        """Whether answers are the same elsewhere; of one that is wrong here already it is not asked."""
        if "state" in self.seen.contracts.breaches:  # elsewhere, nothing is set back
            return self.cell(
                law, "must", "not_tested", says="it is tested only if the subject leaves its process unchanged"
            )
        wrong = self.seen.violated
        found = (
            Elsewhere(says="it is tested only on right answers")
            if wrong
            else examined(self.seen.bench, self.seen.grades, self.seen.known, self.request.dtypes)
        )
        if found.broken_on is None:
            return self.cell(law, "must", "pass" if found.cases else "not_tested", cases=found.cases, says=found.says)
        sample = found.broken_on
        failure = Failure(law, Outcome(Kind.REFUTED, np.inf, says=found.says), sample, sample)
        return self.cell(law, "must", "fail", cases=found.cases, says=found.says, failure=failure)

    def finding(self, law: str, failure: Failure) -> str:
        """The known finding that a failure of what is no law belongs to; nothing if it is new."""
        return recognized(self.request.marks, self.seen.bench, law, failure.outcome, failure.sample)

    def precision_cell(self, law: str) -> Cell:
        if self.seen.violated:
            return self.cell(law, "must", "not_tested", says="no grade explains what was returned")
        tried = sum(t.counts[Kind.HELD] for t in self.seen.tallies)
        if self.seen.imprecise is None:
            return self.cell(law, "must", "pass" if tried else "not_tested", cases=tried)
        says = f"behaves as {self.seen.level}, claims {self.seen.claim}"
        return self.cell(
            law,
            "should" if self.seen.customary else "must",
            "fail",
            cases=tried,
            worst=self.seen.imprecise.outcome.excess,
            says=says,
            failure=replace(self.seen.imprecise, law=law, finding=self.finding(law, self.seen.imprecise)),
        )


def _cell(request: Request, law: str, level: str, verdict: str, **more: Any) -> Cell:
    r = request
    m = r.mechanism
    return Cell(r.subject.name, m.operator, m.name, law, level, r.dtype, r.device, verdict, **more)


def _unsaid(subject: Subject, call: Call) -> str:
    """Why a wrong call has no form in the interface of a subject; nothing where it has one."""
    if isinstance(subject, AdapterSubject) and not subject.form.plain:
        try:
            subject.form.arranged(call)
        except (SpecError, MisfitError):
            return "its interface cannot express the call"
    return ""


def wrong_call(trial: Trial, reject: Reject) -> Call | str | None:
    """The call that is to be refused, or why there is none."""
    frame = trial.frames.on_case()
    with np.errstate(all="ignore"), budget.metered():
        if not truth(reject.when(frame)).sure:
            return None
        replaced = {name: expression(frame) for name, expression in reject.call.items()}
    settled = trial.settle(replaced)
    if trial.frames.refused(settled) is None:
        raise SpecError(
            f"{trial.mechanism.address(reject.name)}: the definition does not refuse the call", reject.place
        )
    try:
        return trial.call(settled, wrong=True)
    except Declined as answer:
        return str(answer)
    except SpecError:  # its sizes contradict one another, as they are to
        return None
