"""Which laws refute which mistakes, in float64 and with slack: sample by sample, all mistakes together.

On one sample, mistakes share what they leave unchanged: the lines of the definition that they do not reach, and the
verdict of a law all of whose calls they answer as the definition does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .cases import Sample
from .errors import SpecError
from .grades import FP64
from .judge import Kind, Outcome, judged
from .mechanism import Law, Mechanism, Mistake
from .stand_ins import DefinitionSubject, Unchanged
from .subject import Reply
from .trial import Bench, Declined, Faulted, Settled, Trial

SLACK = 1e6
"""Units of the float64 bound beyond which a refutation counts."""
TRIED = 8
"""Cases that a law gets to refute a mistake on."""


@dataclass(slots=True)
class Kill:
    """What refutes one mistake."""

    laws: list[str] = field(default_factory=list)
    """In the order of the mechanism."""
    shown: list[tuple[float, Sample]] = field(default_factory=list)
    """The samples that the definition refutes it on, with the error in units of the bound."""

    @property
    def samples(self) -> list[Sample]:
        """The samples on which the mistake shows, first those on which it shows most."""
        return [sample for _, sample in sorted(self.shown, key=lambda item: -item[0])]


def kills(
    mechanism: Mechanism,
    mistakes: Collection[Mistake],
    words: Mapping[str, str],
    laws: Sequence[Law],
    samples: Sequence[Sample],
    say: Callable[[str], None],
) -> dict[str, Kill]:
    """What refutes each of the mistakes under some words, the definition being the first law.

    A law tries those samples first on which the definition refutes the mistake.
    `say` is told of laws that cannot be evaluated.
    """
    return _Hunt(mechanism, mistakes, words, laws, say).over(samples)


class _Hunt:
    """The search for what refutes some mistakes."""

    def __init__(
        self,
        mechanism: Mechanism,
        mistakes: Collection[Mistake],
        words: Mapping[str, str],
        laws: Sequence[Law],
        say: Callable[[str], None],
    ) -> None:
        self.mechanism, self.words, self.say = mechanism, words, say
        self.definition, self.laws = laws[0], laws[1:]
        shared = Unchanged()
        self.right = self.bench("definition", {}, shared)
        self.wrong = {m.name: self.bench(f"mistake:{m.name}", m.change, shared) for m in mistakes}
        self.found = {m.name: Kill() for m in mistakes}
        self.tried = {(mistake, law.name): 0 for mistake in self.wrong for law in self.laws}
        """How many cases an open question has had: a law that is yet to refute a mistake."""

    def bench(self, name: str, changes: Mapping[str, object], shared: Unchanged) -> Bench:
        one = DefinitionSubject(self.mechanism, name, changes, conventions=self.words, rounding=False, unchanged=shared)
        return Bench(one, self.mechanism, "float64", "cpu", self.words)

    def over(self, samples: Sequence[Sample]) -> dict[str, Kill]:
        others: list[tuple[Sample, list[str]]] = []
        for sample in samples:
            trials = {name: Trial(bench, sample, fair=False) for name, bench in self.wrong.items()}
            shown = list(self.shown(sample, trials))
            self.try_laws(sample, {name: trials[name] for name in shown})
            others.append((sample, [name for name in trials if name not in shown]))
        for sample, names in others:
            self.try_laws(sample, {name: Trial(self.wrong[name], sample, fair=False) for name in names})
        order = [self.definition.name, *(law.name for law in self.laws)]
        for kill in self.found.values():
            kill.laws.sort(key=order.index)
        return self.found

    def shown(self, sample: Sample, trials: Mapping[str, Trial]) -> Iterator[str]:
        """The mistakes that the definition refutes on a sample."""
        right = _Traced(self.right, sample, self.definition, self.say)
        for name, trial in trials.items():
            outcome = right.of(trial)
            if outcome is not None and refuted(outcome):
                kill = self.found[name]
                kill.laws += [] if kill.shown else [self.definition.name]
                kill.shown.append((outcome.excess, sample))
                yield name

    def try_laws(self, sample: Sample, trials: Mapping[str, Trial]) -> None:
        """Every law on the mistakes that it is yet to refute."""
        for law in self.laws:
            open_ = [name for name in trials if (name, law.name) in self.tried]
            if not open_:
                continue
            right = _Traced(self.right, sample, law, self.say)
            for name in open_:
                outcome = right.of(trials[name])
                if outcome is not None and outcome.kind not in (Kind.IDLE, Kind.DECLINED):
                    self.count(name, law, refuted(outcome))

    def count(self, mistake: str, law: Law, kill: bool) -> None:
        """One case of an open question, which is closed where it is answered, or has had its cases."""
        self.tried[mistake, law.name] += 1
        if kill:
            self.found[mistake].laws.append(law.name)
        if kill or (self.tried[mistake, law.name] == TRIED and not self.mechanism.undetermined):
            del self.tried[mistake, law.name]


def refuted(outcome: Outcome) -> bool:
    """Whether an outcome is a refutation beyond doubt."""
    return outcome.kind is Kind.FAULTED or (outcome.kind is Kind.REFUTED and outcome.excess > SLACK)


class _Traced(Trial):
    """The definition under one law on one sample, and what the law calls for."""

    def __init__(self, bench: Bench, sample: Sample, law: Law, say: Callable[[str], None]) -> None:
        super().__init__(bench, sample, fair=False)
        self.law, self.say = law, say
        self.asked: list[Settled] = []
        self.outcome = self.judged(self)

    def reply(self, settled: Settled) -> Reply:
        self.asked.append(settled)
        return super().reply(settled)

    def judged(self, trial: Trial) -> Outcome | None:
        try:
            return judged(trial, self.law, [FP64], weighed=False)
        except SpecError as error:
            self.say(f"{self.law.name} cannot be evaluated on {self.sample.case.label}: {error}")
            return None

    def of(self, trial: Trial) -> Outcome | None:
        """How the law fares on a trial: as on the definition, where every call is answered in the same way."""
        try:
            alike = all(trial.reply(settled) is self.replies[settled.key] for settled in self.asked)
        except (Declined, Faulted):
            alike = False
        return self.outcome if alike else self.judged(trial)
