"""Which laws refute which mistakes, in float64 and with slack: all mistakes together, sample by sample.

On one sample, mistakes share what they leave unchanged: the lines of the definition that they do not reach, and the
verdict of a law all of whose calls they answer as the definition does.
How a law fared once on a sample is remembered, for later searches under the same words.
"""

from __future__ import annotations

import functools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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


class Check(NamedTuple):
    """How a law fared on a sample."""

    kind: Kind
    excess: float
    seconds: float
    """CPU time of it."""

    @property
    def refutes(self) -> bool:
        """Whether it is a refutation beyond doubt."""
        return self.kind is Kind.FAULTED or (self.kind is Kind.REFUTED and self.excess > SLACK)


RIGHT = ""
"""What is asked of a law on the definition itself, in the place of the name of a mistake."""


class Checks(dict[tuple[tuple[str, ...], Sample, str, str], Check]):
    """How laws have fared on samples: by words, sample, law, and mistake or `RIGHT`."""


def kills(
    mechanism: Mechanism,
    mistakes: Collection[Mistake],
    words: Mapping[str, str],
    laws: Sequence[Law],
    samples: Sequence[Sample],
    say: Callable[[str], None],
    checks: Checks,
    tried: int = TRIED,
) -> dict[str, Kill]:
    """What refutes each of the mistakes under some words, the definition being the first law.

    A law tries those samples first on which the definition refutes the mistake, and `tried` of them at most.
    `say` is told of laws that cannot be evaluated.
    What is among the `checks` is not tried again, and what is tried is put there.
    """
    return _Hunt(mechanism, mistakes, words, laws, say, checks, tried).over(samples)


class _Hunt:
    """The search for what refutes some mistakes."""

    def __init__(
        self,
        mechanism: Mechanism,
        mistakes: Collection[Mistake],
        words: Mapping[str, str],
        laws: Sequence[Law],
        say: Callable[[str], None],
        known: Checks,
        tried: int,
    ) -> None:
        self.mechanism, self.words, self.say, self.known, self.tried = mechanism, words, say, known, tried
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
        right = _Traced(self.right, sample, self.definition, self.say, self.known)
        for name, trial in trials.items():
            check = self.checked(right, name, trial)
            if check is not None and check.refutes:
                self.found[name].shown.append((check.excess, sample))
                yield name

    def try_laws(self, sample: Sample, trials: Mapping[str, Trial]) -> None:
        """Every law on the mistakes that it is yet to refute."""
        for law in self.laws:
            names = [name for name in trials if (name, law.name) in self.open]
            right = _Traced(self.right, sample, law, self.say, self.known)
            for name in names:
                self.checked(right, name, trials[name])

    def checked(self, right: _Traced, mistake: str, trial: Trial) -> Check | None:
        """A law on a mistake; an open question is closed where it is answered, or has had its cases."""
        question, check = (mistake, right.law.name), right.of(mistake, trial)
        if check is None or check.kind in (Kind.IDLE, Kind.DECLINED) or question not in self.open:
            return check
        self.checks[question] += 1
        self.seconds[question] += check.seconds
        if check.refutes:
            spent, kill = (self.checks[question], self.seconds[question]), self.found[mistake]
            kill.refutations.append(Refutation(right.law.name, right.sample.case.label, *spent, check.excess))
            kill.told.append((check.excess, right.sample))
            self.open.remove(question)
        elif (
            self.checks[question] == self.tried and right.law is not self.definition and not self.mechanism.undetermined
        ):
            self.open.remove(question)
        return check


class _Traced(Tracing):
    """The definition under one law on one sample, and what the law calls for."""

    def __init__(self, bench: Bench, sample: Sample, law: Law, say: Callable[[str], None], known: Checks) -> None:
        super().__init__(bench, sample, fair=False)
        self.law, self.say, self.known = law, say, known
        self.bounded = False
        """Whether the bounds of all that the law looks at are likely to be known, as some mistake needed them."""

    def of(self, mistake: str, trial: Trial) -> Check | None:
        """How the law fares on a trial: as on the definition, where all that it looks at is the same."""
        key = (self.bench.words_key, self.sample, self.law.name, mistake)
        if key in self.known:
            return self.known[key]
        right, started = self.right, time.thread_time()
        outcome = right if self.alike(trial) else self.judged_wrong(trial)
        if outcome is None:
            return None
        # where a mistake answers as the definition does, the law costs what it does there
        seconds = self.seconds + time.thread_time() - started
        self.known[key] = check = Check(outcome.kind, outcome.excess, seconds)
        return check

    def alike(self, trial: Trial) -> bool:
        """Whether all that the law looks at on the definition is the same on a trial."""
        try:
            replies = {key: trial.reply(settled) for key, settled in self.asked.items()}
        except (Declined, Faulted):
            return False
        if all(reply is self.replies[key] for key, reply in replies.items()):
            return True
        return all(replies[key].outputs.get(n) is self.replies[key].outputs.get(n) for n, key in self.looked_at)

    @functools.cached_property
    def right(self) -> Outcome | None:
        """How the law fares on the definition."""
        started = time.thread_time()
        outcome = self.judged(self)
        self.seconds = time.thread_time() - started
        if outcome is not None:
            key = (self.bench.words_key, self.sample, self.law.name, RIGHT)
            self.known[key] = Check(outcome.kind, outcome.excess, self.seconds)
        return outcome

    def judged_wrong(self, trial: Trial) -> Outcome | None:
        """How the law fares on a mistake: with bounds at once, where they are known."""
        before = {*self.asked, *trial.replies}
        if self.bounded:
            try:
                return judged(trial, self.law, [FP64], weighed=False, at_once=True)
            except SpecError:  # as where a bound leaves open which way an `if` goes
                pass
        outcome = self.judged(trial)
        self.bounded = outcome is not None and outcome.claimed is not None and trial.replies.keys() <= before
        return outcome

    def judged(self, trial: Trial) -> Outcome | None:
        try:
            return judged(trial, self.law, [FP64], weighed=False)
        except SpecError as error:
            self.say(f"{self.law.name} cannot be evaluated on {self.sample.case.label}: {error}")
            return None
