"""Running one subject on one mechanism at one dtype: from cases to the cells of a report.

A mechanism is tried block by block (scenarios, covering array, draws); then the definition on crossed sizes.
The definition is tried on every case of a block, and every other law on its number of cases, each law starting at
another one; a law that is refuted is shrunk and rests, and the others go on.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..cases.applicability import undeclared
from ..cases.drawing import keep, seed_of
from ..cases.plans import plan
from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..mechanisms.mechanism import Law
from ..numerics import budget
from ..numerics.grades import Grade
from ..subjects.claims import is_own
from ..subjects.subject import AdapterSubject, noted
from .announced import layout_told
from .cells import Failure, Request, Result, Tally, large_names
from .conventions import identified
from .course import Course
from .independence import KEPT, known_of
from .judge import Kind, Outcome, definition_law, judged
from .layouts import lay_out
from .precision import examined
from .recall import recalled
from .recognition import recognized
from .serving import served
from .settling import Settled
from .trial import Trial
from .verdicts import LAW_ENTRIES, Verdicts, unclaimed, unread
from .workload import worked_through

MANY = 100
"""Cases of a block beyond which what was returned on each is not kept from law to law."""
STEP = 5
"""Cases by which each law starts later than the one before."""
REPEATED = 2
"""Cases of each block on which a call is repeated."""


def run(request: Request) -> Result:
    """Try a subject on a mechanism. Raises `SpecError` where the specification cannot be evaluated."""
    reason = undeclared(request.mechanism, request.subject.claims, request.dtype)
    if reason is not None:
        return Result(tuple(unclaimed(request, reason)))
    with warnings.catch_warnings(), request.subject.session(), budget.budgeted():
        warnings.simplefilter("ignore")
        operator = request.mechanism.stating
        noted(request.subject)  # what was seen before this run is none of its business
        lay_out(request.subject, operator, request.dtype, request.device)
        if request.profile.strict and layout_told(request.subject):
            return Result(tuple(unread(request)))
        found = identified(request.subject, operator, request.dtype, request.device)
        seen = Course(request, found)
        result = _Run(seen).run()
        if seen.tighter and seen.definition is not None and seen.definition.counts[Kind.HELD]:
            says = f"{seen.claim} is claimed, and {seen.tighter[0]} explains all that was returned"
            seen.observed.append(f"{request.mechanism.name} in {request.dtype}: {says}")
            result = replace(result, observed=tuple(seen.observed))
        told = {cell.law for cell in result.cells}
        if request.workload:
            tried = [*worked_through(seen)]
            count, more = sum(cell.cases for cell in tried), {"large": seen.large, "outcomes": seen.outcomes}
            cells, observed = (*result.cells, *tried), tuple(seen.observed)
            return replace(result, cells=cells, observed=observed, cases=count, calls=count, **more)
        if request.profile.large and not request.only and not told & {*large_names(request.mechanism)}:
            result = replace(
                result, cells=(*result.cells, *served(seen)), large=seen.large, observed=tuple(seen.observed)
            )
    keep(request.mechanism)
    return result


class _Run:
    """One run, as it goes."""

    def __init__(self, seen: Course) -> None:
        self.seen, self.request, self.mechanism = seen, seen.request, seen.mechanism
        adapter = seen.subject.adapter if isinstance(seen.subject, AdapterSubject) else None
        self.edited = self.request.spread and adapter is not None and not is_own(adapter)
        """Whether the run reports on a function of the user, who may edit it."""

    def run(self) -> Result:
        started = time.perf_counter()
        request = self.request
        samples = plan(self.mechanism, request.subject.claims, request.profile, request.seed, request.dtype)
        only, planned = request.only, not (request.only or request.large_alone)
        urgent = request.first or request.deadline is not None
        blocks = (samples.urgent() if urgent else samples.blocks()) if planned else [only] if only else []
        for block in blocks:
            self.block(block)
            if self.ended():
                break
        for sample in samples.crossed if planned else ():
            if self.ended() or self.seen.bench.pace.spares(sample.entries):
                break
            self.defined_alone(Trial(self.seen.bench, sample))
        if planned and not self.seen.partial:
            self.top_up(samples.further(8 * request.profile.admitted))
        if planned:
            examined(self.seen, samples.scenarios, self.defined, self.judge)
        return Verdicts(self.seen).result(samples.scenarios if planned else only or (), started)

    def ended(self) -> bool:
        """Whether no more cases are to be tried."""
        if self.request.deadline is not None and time.monotonic() > self.request.deadline:
            self.seen.late = True
        return self.seen.partial

    # Cases

    def block(self, samples: Sequence[Sample]) -> None:
        """The definition on every sample, then each law on its number of them."""
        trials = [Trial(self.seen.bench, sample) for sample in samples]
        right, wrong = [], []
        largest = max(
            (t for t in trials if t.sample.entries <= LAW_ENTRIES), key=lambda t: t.sample.entries, default=None
        )
        for index, trial in enumerate(trials):
            held = self.defined(trial)
            if self.request.watch is not None:
                self.request.watch(trial, held)
            (right if held else wrong).append(trial)
            if held and len(self.seen.known) < KEPT and (known := known_of(trial)) is not None:
                self.seen.known.append(known)
            self.seen.refusals.watch(trial)
            self.seen.contracts.watch(trial)
            if index < REPEATED and not self.seen.settled:
                self.seen.contracts.repeat(trial, largest)
            if self.ended():
                self.collect(trials[: index + 1])
                return
        step = 0 if self.request.subject.claims.sparing else STEP  # every law on the shapes that are compiled
        for turn, tally in enumerate(t for t in self.seen.tallies if t.law.name != "definition"):
            self.law_on(tally, _rotated(right, step * turn))
            if tally.open and not tally.counts[Kind.HELD]:
                self.law_on(tally, _rotated(wrong, step * turn))
            if self.ended():
                break
        for trial in trials[:1] if not self.seen.settled else ():
            self.seen.contracts.repeat(trial, largest)
        self.collect(trials)

    def defined_alone(self, trial: Trial) -> None:
        """The definition on a trial on which no other law is tried."""
        held = self.defined(trial)
        if self.request.watch is not None:
            self.request.watch(trial, held)
        self.seen.contracts.watch(trial)
        self.collect([trial])

    def defined(self, trial: Trial) -> bool:
        """Whether the definition is kept on a trial; after its first failure it is only asked, not tallied.

        Laws are tried on such cases, as long as there are any: a subject is not blamed for a law on a case that it gets
        wrong anyway.
        """
        if self.seen.definition is not None and self.seen.definition.open:
            kind = self.judge(self.seen.definition, trial)
            self.seen.outcomes.append((trial.sample, kind))
            return kind not in (Kind.REFUTED, Kind.FAULTED)
        self.seen.tried.setdefault(trial.sample.key, trial.sample.case)
        outcome = self.outcome(trial, definition_law(self.mechanism), kind_alone=True)
        self.seen.contracts.shaped(outcome, trial)
        if outcome.certain:
            self.seen.outcomes.append((trial.sample, outcome.kind))
        return not outcome.bad

    def law_on(self, tally: Tally, trials: Sequence[Trial]) -> None:
        admitted = 0
        enough = len(trials) if self.mechanism.undetermined else self.request.profile.admitted
        for trial in trials:
            if not tally.open or admitted >= enough:
                return
            if trial.sample.entries > LAW_ENTRIES:
                continue
            kind = self.judge(tally, trial)
            admitted += kind is Kind.HELD or tally.refused is not None
            if len(trials) > MANY:
                trial.release()

    def top_up(self, samples: Iterator[Sample]) -> None:
        """Laws that the plan has hardly reached are drawn for until they have their cases."""
        enough = self.request.profile.admitted
        wanting = [
            t for t in self.seen.tallies if t.open and t.counts[Kind.HELD] < enough and not t.counts[Kind.DECLINED]
        ]
        for sample in samples if wanting else ():
            trial = Trial(self.seen.bench, sample)
            for tally in wanting:
                self.judge(tally, trial)
            self.collect([trial])
            wanting = [t for t in wanting if t.open and t.counts[Kind.HELD] < enough]
            if not wanting or self.ended():
                return

    def judge(self, tally: Tally, trial: Trial) -> Kind:
        """One law on one trial, with all that follows from it."""
        self.seen.tried.setdefault(trial.sample.key, trial.sample.case)
        outcome = self.outcome(trial, tally.law)
        if tally.law.level != "should":
            self.seen.contracts.shaped(outcome, trial)
        case_itself = not (outcome.settled or Settled({})).key
        told = self.seen.definition is not None and tally is not self.seen.definition
        if told and outcome.kind is Kind.FAULTED and (case_itself or trial.silent):
            tally.unanswered += 1
            return Kind.IDLE  # the case itself gives no result; the definition has said so
        if outcome.refusal and tally.law.level == "unless_refused":
            tally.refused = tally.refused or Failure(tally.law.name, outcome, trial.sample, trial.sample)
            tally.counts[Kind.DECLINED] += 1
            return Kind.DECLINED
        if (
            outcome.kind is Kind.REFUTED
            and not outcome.certain
            and not self.again(tally.law, trial.sample, self.seen.grades)
        ):
            tally.doubted += 1
            return Kind.IDLE
        tally.counts[outcome.kind] += 1
        tally.worst = max(tally.worst, outcome.excess) if not outcome.bad else tally.worst
        margin = outcome.margin if self.request.spread else None
        if margin is not None:
            score = trial.frames.score() if tally is self.seen.definition else 0.0
            tally.margins.add(margin, trial.sample.case.label, trial.sample.values, score)
        if outcome.claimed is not None:
            tally.claimed = max(tally.claimed or 0.0, outcome.claimed)
        if outcome.kind is Kind.DECLINED:
            tally.declined = outcome.says
        if outcome.kind is Kind.SLOW:
            tally.slow = outcome.says
        if outcome.bad:
            self.failed(tally, trial, outcome)
        elif outcome.grade is not None and self.seen.wants_looser(outcome.grade):
            self.loosen(tally, trial, outcome.grade, explained=outcome.kind is Kind.HELD)
        self.weigh(tally, trial, outcome.kind)
        return outcome.kind

    def outcome(self, trial: Trial, law: Law, *, kind_alone: bool = False) -> Outcome:
        """How a law fares on a trial; of what may be checked again and again, as it is known for the same results."""
        return (recalled if self.edited else judged)(trial, law, self.seen.grades, kind_alone=kind_alone)

    def failed(self, tally: Tally, trial: Trial, outcome: Outcome) -> None:
        """Take note of a failure, of one that is no known finding before any other."""
        before = self.seen.before(trial.sample)
        known = (self.request.marks, self.seen.bench, tally.law.name, outcome, trial.sample)
        finding = recognized(*known, tally.law, self.seen.grades)
        found = Failure(tally.law.name, outcome, trial.sample, trial.sample, before=before, finding=finding)
        if finding:
            tally.known = tally.known or found
        else:
            tally.failure = found

    def weigh(self, tally: Tally, trial: Trial, kind: Kind) -> None:
        """Take note that a claim is needed, where tighter grades do not explain what holds under it."""
        if tally is self.seen.definition and kind is Kind.HELD:
            kept = [x for x in self.seen.tighter if judged(trial, tally.law, [x]).kind is not Kind.REFUTED]
            self.seen.tighter = kept

    def loosen(self, tally: Tally, trial: Trial, grade: Grade, *, explained: bool) -> None:
        """Take note that a looser grade is needed, unless the tighter one was left by chance alone."""
        law = tally.law
        if not explained:
            self.seen.unexplained.append((tally, trial.sample, grade))
            return
        tighter = judged(trial, law, [self.seen.level])
        if tighter.certain or self.again(law, trial.sample, [self.seen.level]):
            self.seen.level = grade
            self.seen.imprecise = Failure(law.name, judged(trial, law, [self.seen.claim]), trial.sample, trial.sample)

    def again(self, law: Law, sample: Sample, grades: Sequence[Grade]) -> bool:
        """Whether a violation of the likely bound alone is found again on fresh seeds."""
        for turn in range(3):
            case = replace(sample.case, seed=seed_of(sample.case.seed, "again", turn))
            try:
                fresh = Sample(self.mechanism, case, self.request.dtype)
            except (Unfit, SpecError):
                continue
            if judged(Trial(self.seen.bench, fresh), law, grades).kind is Kind.REFUTED:
                return True
        return False

    def collect(self, trials: Sequence[Trial]) -> None:
        """What the calls of trials have broken."""
        for trial in trials:
            self.seen.cases += 1
            replies = [*trial.replies.values(), *trial.spent]
            self.seen.calls += len(replies)
            self.seen.answered += sum(reply.fault is None for reply in replies)
            self.seen.seconds += [reply.seconds for reply in replies if reply.seconds]
            self.seen.contracts.watch(trial)
            self.seen.meets(trial)


def _rotated(trials: Sequence[Trial], offset: int) -> Sequence[Trial]:
    if not trials:
        return trials
    start = offset % len(trials)
    return [*trials[start:], *trials[:start]]
