"""Which laws refute which mistakes, in float64 and with slack: sample by sample, all mistakes together.

On one sample, mistakes share what they leave unchanged: the lines of the definition that they do not reach, and the
verdict of a law all of whose calls they answer as the definition does.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..cases.samples import Sample
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.judge import Kind, Outcome, judged
from ..judging.settling import Declined
from ..judging.trial import Faulted, Tracing, Trial
from ..mechanisms.mechanism import Law, Mechanism, Mistake
from ..numerics.grades import FP64
from ..subjects.stand_ins import DefinitionSubject, Unchanged

SLACK = 1e6
"""Units of the float64 bound beyond which a refutation counts."""
TRIED = 4
"""Cases that a law gets to refute a mistake on, unless it is to have more."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """How a law came to refute a mistake."""

    law: str
    case: str
    checks: int
    """Cases that the law was tried on, this one included."""
    seconds: float
    """CPU time of these checks."""
    excess: float
    """The error in units of the bound."""


@dataclass(slots=True)
class Kill:
    """What refutes one mistake."""

    refutations: list[Refutation] = field(default_factory=list)
    """One a law, in the order of the mechanism."""
    shown: list[tuple[float, Sample]] = field(default_factory=list)
    """The samples that the definition refutes it on, with the error in units of the bound."""
    told: list[tuple[float, Sample]] = field(default_factory=list)
    """The same of other laws, one sample each."""

    @property
    def laws(self) -> list[str]:
        return [refutation.law for refutation in self.refutations]

    @property
    def errors(self) -> dict[str, float]:
        """For each case on which the mistake shows, the error in units of the bound."""
        return {sample.case.label: excess for excess, sample in self.shown or self.told}

    @property
    def samples(self) -> list[Sample]:
        """The samples on which the mistake shows, first those on which it shows most."""
        return [sample for _, sample in sorted(self.shown or self.told, key=lambda item: -item[0])]


def kills(
    mechanism: Mechanism,
    mistakes: Collection[Mistake],
    words: Mapping[str, str],
    laws: Sequence[Law],
    samples: Sequence[Sample],
    say: Callable[[str], None],
    tried: int = TRIED,
) -> dict[str, Kill]:
    """What refutes each of the mistakes under some words, the definition being the first law.

    A law tries those samples first on which the definition refutes the mistake, and `tried` of them at most.
    `say` is told of laws that cannot be evaluated.
    """
    return _Hunt(mechanism, mistakes, words, laws, say, tried).over(samples)


class _Hunt:
    """The search for what refutes some mistakes."""

    def __init__(
        self,
        mechanism: Mechanism,
        mistakes: Collection[Mistake],
        words: Mapping[str, str],
        laws: Sequence[Law],
        say: Callable[[str], None],
        tried: int,
    ) -> None:
        self.mechanism, self.words, self.say, self.tried = mechanism, words, say, tried
        self.definition, self.laws = laws[0], laws[1:]
        shared = Unchanged()
        self.right = self.bench("definition", {}, shared)
        self.wrong = {m.name: self.bench(f"mistake:{m.name}", m.change, shared) for m in mistakes}
        self.found = {m.name: Kill() for m in mistakes}
        self.open = {(mistake, law.name) for mistake in self.wrong for law in laws}
        """The questions: a law that is yet to refute a mistake."""
        self.checks: Counter[tuple[str, str]] = Counter()
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)

    def bench(self, name: str, changes: Mapping[str, object], shared: Unchanged) -> Bench:
        one = DefinitionSubject(self.mechanism, name, changes, conventions=self.words, rounding=False, unchanged=shared)
        return Bench(one, self.mechanism, "float64", "cpu", self.words)

    def over(self, samples: Sequence[Sample]) -> dict[str, Kill]:
        others: list[tuple[Sample, dict[str, Trial]]] = []
        for sample in samples:
            trials = {name: Trial(bench, sample, fair=False) for name, bench in self.wrong.items()}
            shown = list(self.shown(sample, trials))
            self.try_laws(sample, {name: trials[name] for name in shown})
            others.append((sample, {name: trial for name, trial in trials.items() if name not in shown}))
        while others:
            self.try_laws(*others.pop(0))
        order = [self.definition.name, *(law.name for law in self.laws)]
        for kill in self.found.values():
            kill.refutations.sort(key=lambda refutation: order.index(refutation.law))
        return self.found

    def shown(self, sample: Sample, trials: Mapping[str, Trial]) -> Iterator[str]:
        """The mistakes that the definition refutes on a sample; it is tried on all of them."""
        right = _Traced(self.right, sample, self.definition, self.say)
        for name, trial in trials.items():
            outcome = self.outcome(right, name, trial)
            if outcome is not None and refuted(outcome):
                self.found[name].shown.append((outcome.excess, sample))
                yield name

    def try_laws(self, sample: Sample, trials: Mapping[str, Trial]) -> None:
        """Every law on the mistakes that it is yet to refute."""
        for law in self.laws:
            names = [name for name in trials if (name, law.name) in self.open]
            if not names:
                continue
            right = _Traced(self.right, sample, law, self.say)
            for name in names:
                self.outcome(right, name, trials[name])

    def outcome(self, right: _Traced, mistake: str, trial: Trial) -> Outcome | None:
        """A law on a mistake; an open question is closed where it is answered, or has had its cases."""
        question, started = (mistake, right.law.name), time.process_time()
        outcome = right.of(trial)
        if outcome is None or outcome.kind in (Kind.IDLE, Kind.DECLINED) or question not in self.open:
            return outcome
        self.checks[question] += 1
        self.seconds[question] += right.seconds + time.process_time() - started
        if refuted(outcome):
            spent, kill = (self.checks[question], self.seconds[question]), self.found[mistake]
            kill.refutations.append(Refutation(right.law.name, right.sample.case.label, *spent, outcome.excess))
            kill.told.append((outcome.excess, right.sample))
            self.open.remove(question)
        elif (
            self.checks[question] == self.tried and right.law is not self.definition and not self.mechanism.undetermined
        ):
            self.open.remove(question)
        return outcome


def refuted(outcome: Outcome) -> bool:
    """Whether an outcome is a refutation beyond doubt."""
    return outcome.kind is Kind.FAULTED or (outcome.kind is Kind.REFUTED and outcome.excess > SLACK)


class _Traced(Tracing):
    """The definition under one law on one sample, and what the law calls for."""

    def __init__(self, bench: Bench, sample: Sample, law: Law, say: Callable[[str], None]) -> None:
        super().__init__(bench, sample, fair=False)
        self.law, self.say = law, say
        started = time.process_time()
        self.outcome = self.judged(self)
        self.seconds = time.process_time() - started
        """What the law costs on the definition; where a mistake answers in the same way, it costs that as well."""

    def judged(self, trial: Trial) -> Outcome | None:
        try:
            return judged(trial, self.law, [FP64], weighed=False)
        except SpecError as error:
            self.say(f"{self.law.name} cannot be evaluated on {self.sample.case.label}: {error}")
            return None

    def of(self, trial: Trial) -> Outcome | None:
        """How the law fares on a trial: as on the definition, where every call is answered in the same way."""
        try:
            alike = all(trial.reply(settled) is self.replies[settled.key] for settled in self.asked.values())
        except (Declined, Faulted):
            alike = False
        return self.outcome if alike else self.judged(trial)
