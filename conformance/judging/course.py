"""The state of a run of one subject on one mechanism, and why it ends."""

from __future__ import annotations

from collections.abc import Mapping

from ..cases.large import LargeSample
from ..cases.samples import Case, Sample
from ..frameworks.framework import kind_of
from ..numerics.grades import CUSTOMARY, Grade, looser, tighter
from .bench import DEATHS, Bench
from .cells import BACKWARD, Failure, Request, Tally
from .contracts import Contracts
from .conventions import Finding, words_of
from .independence import Known
from .judge import Kind, definition_law
from .refusals import Refusals
from .trial import Trial

BEFORE = 64
"""Cases that are kept with a failure, for those on which it fails after others only."""
HANGS = 3
"""Calls that may hang before a group is given up."""


class Course:
    """What a run has seen so far."""

    def __init__(self, request: Request, found: Mapping[str, Finding]) -> None:
        self.request, self.found = request, found
        self.mechanism, self.subject = request.mechanism, request.subject
        words = words_of(self.mechanism, found)
        self.bench = Bench(self.subject, self.mechanism, request.dtype, request.device, words)
        self.claim = self.subject.claims.grade(request.dtype)
        self.grades = looser(request.dtype, self.claim)
        self.level = self.claim
        self.tighter = list(tighter(request.dtype, self.claim))
        """Of a claim that is none of the usual ones, the tighter ones that have explained all cases so far as well."""
        self.imprecise: Failure | None = None
        self.unexplained: list[tuple[Tally, Sample, Grade]] = []
        """Where a law fails at the claim, and no looser grade explains that, but the bounds of one say nothing."""
        laws = [definition_law(self.mechanism), *self.mechanism.laws.values()]
        self.tallies = [Tally(law) for law in laws if request.wants(law.name)]
        self.definition = next((t for t in self.tallies if t.law.name == "definition"), None)
        asked = request.laws is not None and BACKWARD in request.laws
        self.contracts = Contracts(self.bench, request.marks, backward=asked)
        self.met: set[str] = set()
        """The known findings whose condition a case has met that was answered."""
        self.known: list[Known] = []
        """Cases that the subject gets right, some of which are made again elsewhere."""
        self.calls = self.answered = self.cases = 0
        self.seconds: list[float] = []
        """How long calls took, as far as that is known."""
        self.tried: dict[str, Case] = {}
        """The cases that were tried so far, by their keys."""
        self.outcomes: list[tuple[Sample, Kind]] = []
        """How the definition fared on each case."""
        self.large: list[tuple[LargeSample, Kind]] = []
        """How each case of the sizes of production fared."""
        self.observed: list[str] = []
        """What was seen that nobody has claimed, in words."""
        self.late = False
        """Whether time was up."""
        self.refusals = Refusals()

    def meets(self, trial: Trial) -> None:
        """Take note of the known findings that a case is about, if it was answered."""
        reply = trial.replies.get(trial.base.key)
        if reply is None or reply.fault is not None:
            return
        for mark in self.request.marks:
            if mark.finding not in self.met and mark.when is not None:
                self.met |= {mark.finding} if mark.met(self.mechanism, trial.sample.values, self.bench.dtype) else set()

    def before(self, sample: Sample) -> tuple[Case, ...]:
        """The last cases beside that of a sample that were tried so far."""
        return tuple(case for key, case in self.tried.items() if key != sample.key)[-BEFORE:]

    def wants_looser(self, grade: Grade) -> bool:
        """Whether a law that holds at a grade needs a looser one than all laws before it."""
        return grade in self.grades and self.grades.index(grade) > self.grades.index(self.level)

    @property
    def given_up(self) -> bool:
        return bool(self._given_up)

    @property
    def _given_up(self) -> str:
        """After what the group is given up, in words; nothing if it is not."""
        if self.bench.faults["hung"] >= HANGS:
            return f"{HANGS} calls that hung"
        if self.bench.deadly:
            return f"{DEATHS} calls that ended their process, with no successful call"
        return ""

    @property
    def violated(self) -> bool:
        """Whether a law is violated."""
        return any(tally.violated for tally in self.tallies)

    @property
    def tolerated(self) -> Grade:
        """The loosest rounding that breaks no contract: what is claimed, or usual on the device if nothing is."""
        r = self.request
        usual = CUSTOMARY.get((kind_of(r.device), r.dtype), self.claim)
        return self.claim if r.dtype in r.subject.claims.grades else usual

    @property
    def customary(self) -> bool:
        """Whether the rounding is looser than what is claimed, as is usual on the device."""
        return self.level == self.tolerated != self.claim

    @property
    def settled(self) -> bool:
        """Whether there is a violation, and nothing more is to be known."""
        wanted = self.request.wants("contract.precision") and not self.customary
        imprecise = self.imprecise is not None and wanted
        return self.request.first and (self.violated or imprecise or self.contracts.broken)

    @property
    def partial(self) -> bool:
        """Whether cases are left out."""
        return self.late or self.given_up or self.settled

    @property
    def cut_short(self) -> str:
        """Why cases were left out; nothing if none were."""
        if self.given_up:
            return f"stopped after {self._given_up}"
        if self.settled:
            return "the run stopped at the first violation"
        return "the time limit was reached" if self.late else ""

    @property
    def too_slow(self) -> str:
        """Why there was no time for a case of the definition, or of a law where it is not asked for."""
        asked = self.tallies if self.definition is None else [self.definition]
        return next((tally.slow for tally in asked if tally.slow), "")
