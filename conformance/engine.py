"""Running one subject on one mechanism at one dtype: from cases to the cells of a report.

A mechanism is tried block by block (scenarios, covering set, draws).
The definition is tried on every case of a block, and every other law on its number of cases, each law starting at
another one; a law that is refuted is shrunk and rests, and the others go on.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from . import limits
from .calling import ABRUPT, Breach, Call, Fault
from .cases import Case, Sample, Unfit
from .cells import CONTRACTS, Cell, Failure, Request, Result, Tally, law_names, law_of
from .conventions import Finding, identify, words_of
from .definition import refused
from .errors import SpecError
from .grades import Grade, looser
from .judge import Kind, Outcome, definition_law, judged
from .loader import library
from .mechanism import Law, Mechanism, Reject
from .plans import plan, seed_of, undeclared
from .shrink import Shrunk, shrink
from .subject import Subject
from .trial import Bench, Declined, Settled, Trial
from .truths import truth

LARGE = 60_000
"""Entries of a case beyond which it serves the definition alone."""
HANGS = 3
"""Calls that may hang before a group is given up."""
MANY = 100
"""Cases of a block beyond which what was returned on each is not kept from law to law."""
REPEATED = 2
"""Cases of each block on which a call is repeated."""


def run(request: Request) -> Result:
    """Try a subject on a mechanism. Raises `SpecError` where the specification cannot be evaluated."""
    reason = undeclared(request.mechanism, request.subject.claims)
    if reason is not None:
        return Result(tuple(_Run(request, {}).unclaimed(reason)))
    with warnings.catch_warnings(), request.subject.session():
        warnings.simplefilter("ignore")
        operator = library()[request.mechanism.operator]
        found = identified(request.subject, operator, request.dtype, request.device)
        return _Run(request, found).result()


_FOUND: WeakKeyDictionary[Subject, dict[tuple[str, ...], dict[str, Finding]]] = WeakKeyDictionary()


def identified(subject: Subject, operator: Mechanism, dtype: str, device: str) -> dict[str, Finding]:
    """The conventions of a subject, found once in a process."""
    found, key = _FOUND.setdefault(subject, {}), (operator.name, dtype, device)
    if key not in found:
        found[key] = identify(subject, operator, dtype, device)
    return found[key]


class _Run:
    """One run, as it goes."""

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
        self.tallies = [Tally(law) for law in laws if self.wanted(law.name)]
        self.definition = next((t for t in self.tallies if t.law.name == "definition"), None)
        self.breaches: dict[str, tuple[Breach, Sample]] = {}
        self.repeats = 0
        self.deadly = False
        """Whether a call with nothing but NaN ended its process, or hung."""
        self.calls = self.answered = self.cases = 0
        self.partial = False
        self.scenarios: list[str] = []
        """The scenarios that were answered."""

    def wanted(self, name: str) -> bool:
        return self.request.laws is None or name in self.request.laws

    def result(self) -> Result:
        started = time.perf_counter()
        samples = plan(self.mechanism, self.subject.claims, self.request.profile, self.request.seed, self.request.dtype)
        only = self.request.only
        urgent = self.request.first or self.request.deadline is not None
        for block in [only] if only else samples.urgent() if urgent else samples.blocks():
            self.block(block)
            if self.late():
                break
        if not self.partial and not only:
            self.top_up(samples.further(8 * self.request.profile.admitted))
        refusal = self.wholesale_refusal()
        if refusal is not None:
            return Result(tuple(self.unclaimed(refusal)), self.found)
        cells = [
            *self.law_cells(),
            *self.reject_cells(only or samples.scenarios),
            *self.convention_cells(),
            *self.contract_cells(),
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
            tuple(self.scenarios),
        )

    def late(self) -> bool:
        late = self.request.deadline is not None and time.monotonic() > self.request.deadline
        self.partial = self.partial or late or self.given_up
        return self.partial

    def cut_short(self) -> str:
        """Why cases were left out; nothing if none were."""
        if self.given_up:
            return f"given up after {HANGS} calls that hung"
        return ("the first violation ended the run" if self.request.first else "time was up") if self.partial else ""

    @property
    def given_up(self) -> bool:
        return self.bench.faults["hung"] >= HANGS

    # Cases

    def block(self, samples: Sequence[Sample]) -> None:
        """The definition on every sample, then each law on its number of them."""
        trials = [Trial(self.bench, sample) for sample in samples]
        right, wrong = [], []
        largest = max((t for t in trials if t.sample.entries <= LARGE), key=lambda t: t.sample.entries, default=None)
        for index, trial in enumerate(trials):
            (right if self.defined(trial) else wrong).append(trial)
            if trial.sample.case.scenario and trial.answered:
                self.scenarios.append(trial.sample.case.label)
            self.watch(trial)
            if index < REPEATED:
                self.repeat(trial, largest)
            if self.late():
                self.collect(trials[: index + 1])
                return
        for turn, tally in enumerate(t for t in self.tallies if t.law.name != "definition"):
            self.law_on(tally, _rotated(right, 5 * turn))
            if tally.open and not tally.counts[Kind.HELD]:
                self.law_on(tally, _rotated(wrong, 5 * turn))
            if self.late():
                break
        for trial in trials[:1]:
            self.repeat(trial, largest)
        self.collect(trials)

    def defined(self, trial: Trial) -> bool:
        """Whether the definition is kept on a trial; after its first failure it is only asked, not tallied.

        Laws are tried on such cases, as long as there are any: a subject is not blamed for a law on a case that it gets
        wrong anyway.
        """
        if self.definition is not None and self.definition.open:
            return self.judge(self.definition, trial) not in (Kind.REFUTED, Kind.FAULTED)
        outcome = judged(trial, definition_law(self.mechanism), self.grades)
        self.shaped(outcome, trial)
        return not outcome.bad

    def law_on(self, tally: Tally, trials: Sequence[Trial]) -> None:
        admitted = 0
        enough = len(trials) if self.mechanism.undetermined else self.request.profile.admitted
        for trial in trials:
            if not tally.open or admitted >= enough:
                return
            if trial.sample.entries > LARGE:
                continue
            admitted += self.judge(tally, trial) is Kind.HELD
            if len(trials) > MANY:
                trial.release()

    def top_up(self, samples: Iterator[Sample]) -> None:
        """Laws that the plan has hardly reached are drawn for until they have their cases."""
        enough = self.request.profile.admitted
        wanting = [t for t in self.tallies if t.open and t.counts[Kind.HELD] < enough and not t.counts[Kind.DECLINED]]
        for sample in samples if wanting else ():
            trial = Trial(self.bench, sample)
            for tally in wanting:
                self.judge(tally, trial)
            self.collect([trial])
            wanting = [t for t in wanting if t.open and t.counts[Kind.HELD] < enough]
            if not wanting or self.late():
                return

    def judge(self, tally: Tally, trial: Trial) -> Kind:
        """One law on one trial, with all that follows from it."""
        outcome = judged(trial, tally.law, self.grades)
        if tally.law.level == "must":
            self.shaped(outcome, trial)
        case_itself = not (outcome.settled or Settled({})).key
        told = self.definition is not None and tally is not self.definition
        if told and outcome.kind is Kind.FAULTED and (case_itself or trial.silent):
            tally.unanswered += 1
            return Kind.IDLE  # the case itself gives no result; the definition has said so
        if (
            outcome.kind is Kind.REFUTED
            and not outcome.certain
            and not self.again(tally.law, trial.sample, self.grades)
        ):
            tally.doubted += 1
            return Kind.IDLE
        tally.counts[outcome.kind] += 1
        tally.worst = max(tally.worst, outcome.excess) if not outcome.bad else tally.worst
        if outcome.kind is Kind.DECLINED:
            tally.declined = outcome.says
        if outcome.bad:
            tally.failure = Failure(tally.law.name, outcome, trial.sample, trial.sample)
            self.partial |= self.request.first and tally.law.level == "must"
        elif outcome.grade in self.grades and self.grades.index(outcome.grade) > self.grades.index(self.level):
            self.loosen(outcome.grade, tally.law, trial)
        return outcome.kind

    def loosen(self, grade: Grade, law: Law, trial: Trial) -> None:
        """Take note that a looser grade is needed, unless the tighter one was left by chance alone."""
        tighter = judged(trial, law, [self.level])
        if tighter.certain or self.again(law, trial.sample, [self.level]):
            self.level = grade
            self.imprecise = Failure(law.name, judged(trial, law, [self.claim]), trial.sample, trial.sample)
            self.partial |= self.request.first and self.wanted("contract.precision")

    def again(self, law: Law, sample: Sample, grades: Sequence[Grade]) -> bool:
        """Whether a violation of the likely bound alone is found again on fresh seeds."""
        for turn in range(3):
            case = replace(sample.case, seed=seed_of(sample.case.seed, "again", turn))
            try:
                fresh = Sample(self.mechanism, case, self.request.dtype)
            except (Unfit, SpecError):
                continue
            if judged(Trial(self.bench, fresh), law, grades).kind is Kind.REFUTED:
                return True
        return False

    # Contracts

    def shaped(self, outcome: Outcome, trial: Trial) -> None:
        """What an output of another shape breaks, besides the law that has met it."""
        if outcome.fault is not None and outcome.fault.kind == "misshapen":
            self.breach(Breach("shape", outcome.says), trial)

    def collect(self, trials: Sequence[Trial]) -> None:
        """What the calls of trials have broken."""
        for trial in trials:
            self.cases += 1
            replies = [*trial.replies.values(), *trial.spent]
            self.calls += len(replies)
            self.answered += sum(reply.fault is None for reply in replies)
            self.watch(trial)

    def watch(self, trial: Trial) -> None:
        """The contracts that the calls of a trial have broken."""
        for reply in (*trial.replies.values(), *trial.spent):
            for breach in reply.breaches:
                self.breach(breach, trial)

    def breach(self, breach: Breach, trial: Trial) -> None:
        """Take note of a broken contract."""
        self.breaches.setdefault(breach.contract, (breach, trial.sample))
        self.partial |= self.request.first and self.contract_level(breach.contract) == "must"

    def contract_level(self, name: str) -> str:
        """Whether a contract is asked of the subject."""
        seeded = self.mechanism.random and "seed" in self.subject.claims.names
        lenient = name == "repeatable" and not self.subject.claims.deterministic and not seeded
        return "should" if lenient else "must"

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
        self.poison(trial if largest is None else largest)
        self.poison(trial)
        second = self.subject.call(replace(call, poisoned=True))
        for name, x in first.outputs.items():
            y = second.outputs.get(name)
            if y is None and second.fault is not None:
                self.breach(Breach("repeatable", f"the same call again {_ended(second.fault)}"), trial)
            if y is None or (y.shape == x.shape and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")):
                continue
            if y.dtype.kind == "f" and y.shape == x.shape and np.isnan(y).any() and not np.isnan(x).all():
                self.breach(Breach("written", f"entries of {name!r} keep what their memory held before"), trial)
            else:
                self.breach(Breach("repeatable", f"the same call gave another {name!r}"), trial)

    def poison(self, trial: Trial) -> None:
        """A call with NaN in place of every number; nothing is asked of it, and none follows one that has no end."""
        if self.deadly:
            return
        with contextlib.suppress(Exception):
            call = trial.call(trial.base)
            inputs = {name: _nothing_like(x) for name, x in call.inputs.items()}
            fault = self.subject.call(replace(call, inputs=inputs)).fault
            self.deadly = fault is not None and fault.kind in ABRUPT

    # Cells

    def cell(self, law: str, level: str, verdict: str, **more: Any) -> Cell:
        r = self.request
        return Cell(
            self.subject.name,
            self.mechanism.operator,
            self.mechanism.name,
            law,
            level,
            r.dtype,
            r.device,
            verdict,
            **more,
        )

    def unclaimed(self, reason: str) -> Iterator[Cell]:
        for name in law_names(self.mechanism):
            if self.wanted(name):
                yield self.cell(name, "must", "not_declared", says=reason)

    def wholesale_refusal(self) -> str | None:
        """Why a function that was merely pointed at refuses all of a further mechanism, if it does.

        To refuse is not to be wrong; nobody has said that it can do this.
        """
        if self.subject.claims.declared or self.mechanism.operator == self.mechanism.name:
            return None
        definition = self.definition
        if definition is None or definition.failure is None or definition.counts[Kind.HELD]:
            return None
        fault = definition.failure.outcome.fault
        return f"refuses it: {fault.says}" if fault is not None and fault.kind == "raised" else None

    def law_cells(self) -> Iterator[Cell]:
        for tally in self.tallies:
            verdict, says = tally.verdict()
            if verdict == "not_tested":
                says = self.cut_short() or says
            failure = tally.failure
            cases = tally.counts[Kind.HELD] + (failure is not None)
            worst = failure.outcome.excess if failure else tally.worst
            yield self.cell(
                tally.law.name,
                tally.law.level,
                verdict,
                cases=cases,
                worst=worst,
                says=says,
                failure=failure,
                vacuous=tally.counts[Kind.VACUOUS],
            )

    def reject_cells(self, samples: Sequence[Sample]) -> Iterator[Cell]:
        for reject in self.mechanism.rejects.values():
            if self.wanted(reject.name):
                yield self.reject_cell(reject, samples)

    def reject_cell(self, reject: Reject, samples: Sequence[Sample]) -> Cell:
        """Whether a subject refuses what it is to refuse, on the first cases from which the call can be made."""
        tried, says = 0, self.cut_short() or "no case reached its condition"
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
            if name.startswith("convention.") and self.wanted(name):
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
            return self.cell(law, "must", "fail", cases=finding.cases, says=says)
        other = identified(self.subject, library()[self.mechanism.operator], first, self.request.device)
        known = other[finding.convention]
        if known.how == "observed" and known.word != finding.word:
            says = f"follows {known.word} in {first}, but {finding.word} in {self.request.dtype}"
            return self.cell(law, "must", "fail", cases=finding.cases, says=says)
        verdict = "fail" if self.request.profile.strict else "pass"
        says = f"observed: {finding.word}" + ("; a gate declares it" if verdict == "fail" else "")
        return self.cell(law, "must", verdict, cases=finding.cases, says=says)

    def contract_cells(self) -> Iterator[Cell]:
        for name in CONTRACTS:
            law = f"contract.{name}"
            if not self.wanted(law):
                continue
            if name == "precision":
                yield self.precision_cell(law)
            else:
                yield self.contract_cell(name, law)

    def contract_cell(self, name: str, law: str) -> Cell:
        level, cases = self.contract_level(name), self.answered
        if name in ("repeatable", "written"):
            cases = self.repeats
        if name in self.breaches:
            breach, sample = self.breaches[name]
            failure = Failure(law, Outcome(Kind.REFUTED, np.inf, says=breach.says), sample, sample)
            return self.cell(law, level, "fail", cases=cases, says=breach.says, failure=failure)
        return self.cell(law, level, "pass" if cases else "not_tested", cases=cases)

    def precision_cell(self, law: str) -> Cell:
        if any(t.failure is not None and t.law.level == "must" for t in self.tallies):
            return self.cell(law, "must", "not_tested", says="no grade explains what was returned")
        tried = sum(t.counts[Kind.HELD] for t in self.tallies)
        if self.imprecise is None:
            return self.cell(law, "must", "pass" if tried else "not_tested", cases=tried)
        says = (
            f"right in every law; behaves as {self.level}, claims {self.claim}; "
            f"declare grade={self.level.name!r} if intended"
        )
        return self.cell(
            law,
            "must",
            "fail",
            cases=tried,
            worst=self.imprecise.outcome.excess,
            says=says,
            failure=replace(self.imprecise, law=law),
        )


def made_small(failure: Failure, result: Result) -> Failure:
    """A failure on the smallest case near it on which it persists; contracts and rejects are left as they are."""
    bench = result.bench
    law = None if bench is None else law_of(bench.mechanism, failure.law)
    if bench is None or law is None:
        return failure
    fault, last = _symptom(failure.outcome), [failure.outcome]

    def fails(case: Case) -> Sample | None:
        try:
            sample = Sample(bench.mechanism, case, bench.dtype, claims=bench.subject.claims)
            outcome = judged(Trial(bench, sample), law, result.grades)
        except (Unfit, SpecError):
            return None
        if _symptom(outcome) != fault:
            return None
        last[0] = outcome
        return sample

    with bench.subject.session():
        smallest: Shrunk = shrink(bench.mechanism, failure.sample, fails)
        outcome = last[0]
        if outcome.kind is Kind.REFUTED:  # people read the error in units of the bound that is claimed
            claimed = judged(Trial(bench, smallest.sample), law, result.grades[:1])
            outcome = replace(claimed, certain=outcome.certain)
    return replace(failure, sample=smallest.sample, outcome=outcome, tried=smallest.tried)


def _symptom(outcome: Outcome) -> tuple[Any, ...]:
    """How a failure shows, without its numbers: what shows in another way may be another fault."""
    if outcome.fault is None:
        return outcome.kind, outcome.says
    return outcome.fault.kind, outcome.fault.kind in ("raised", "died") and outcome.says.partition(":")[0]


def _rotated(trials: Sequence[Trial], offset: int) -> Sequence[Trial]:
    if not trials:
        return trials
    start = offset % len(trials)
    return [*trials[start:], *trials[:start]]


def _nothing_like(x: NDArray[Any]) -> NDArray[Any]:
    """NaN in place of every number; whole numbers and truths as they are."""
    return np.full_like(x, np.nan) if x.dtype.kind == "f" else x


def _ended(fault: Fault) -> str:
    return f"raised {fault.says}" if fault.kind == "raised" else f"had no result: {fault.says}"


def _wrong_call(trial: Trial, reject: Reject) -> Call | str | None:
    """The call that is to be refused, or why there is none."""
    frame = trial.base_frame()
    with np.errstate(all="ignore"), limits.metered():
        if not truth(reject.when(frame)).sure:
            return None
        replaced = {name: expression(frame) for name, expression in reject.call.items()}
    settled = trial.settle(replaced)
    if refused(trial.mechanism, {**settled.values, **trial.bench.words}) is None:
        raise SpecError(
            f"{trial.mechanism.address(reject.name)}: the definition does not refuse the call", reject.place
        )
    try:
        return trial.call(settled)
    except Declined as answer:
        return str(answer)
    except SpecError:  # its sizes contradict one another, as they are to
        return None
