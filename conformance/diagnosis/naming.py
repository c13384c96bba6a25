"""Naming what is wrong: the known mistake, or the two of them, that a subject behaves like.

Candidates are run on calls that the subject has answered: those on which it failed, the scenarios of the mechanism and
its kin, and fresh ones, drawn to tell those candidates apart which are still alike.
A name is given only to what agrees with the subject on every one of them, for a wrong name is worse than none; where
nothing does, what comes nearest is told as that.
The other words of conventions come first: what they explain may well be intended.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced

from ..cases.plans import plan, scenarios_of
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.cells import Failure, law_of
from ..judging.judge import judged
from ..judging.trial import Tracing, Trial
from ..numerics.grades import Grade, looser
from .candidates import Candidate, Changed, faulty, stock
from .conditional import conditional
from .observations import Observation, Stance
from .signatures import Signature
from .steering import EXPLAINED_ENTRIES
from .synthesis import plausible

FRESH = 32
"""Cases that are drawn in search of some that tell."""
ASKED = 12
"""Fresh cases that the subject is asked about."""
LOOKED_AT = 24
"""Cases of either kind, failing and not, on which the parts of a pair are looked for."""
ANCHORS = 8
"""Candidates that explain some of the failing cases, to each of which a second one is sought."""
TRIED = 600
"""Pairs that are tried where no candidate explains any failing case by itself."""
FITTING = 4
"""Pairs that agree on everything, of which further ones are not sought."""
WITNESSES = 1
"""Cases on which either part of a pair must be needed."""
CALLS = 1_000
"""Calls of faulty functions in one diagnosis."""
EVIDENCE = 5
"""Cases on which a faulty function agrees at least: it is one of many like it, with other tiles or other limits."""
SURE = 4
"""Cases on which an edit of the definition agrees at least: there are many of them."""
ALIKE = 8
"""Further edits that give the same on every case, beyond which none of them is told."""
NEAREST = 2
"""Cases on which what comes nearest agrees at least."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A mistake, or another word of a convention."""

    name: str
    says: str
    convention: str = ""
    word: str = ""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a subject behaves like, and on how many cases."""

    causes: tuple[Cause, ...]
    """One, or two together, a convention first."""
    agreed: int
    """Cases that tell it from the definition, on all of which it agrees with the subject; if `by_laws`, failures."""
    others: tuple[str, ...] = ()
    """What gives the same on every case."""
    by_laws: bool = False
    """Whether outputs are random, so that nothing but the broken laws can be compared, each on several cases."""
    runner_up: str = ""
    """The single mistake or word that comes nearest of those that do not."""
    differs: int = 0
    """Cases on which the runner-up differs from the subject."""
    changed: tuple[Changed, ...] = ()
    """Of what is not known by a name, the lines of the definition that it changes."""
    candidate: Candidate | None = None
    """What was run to see that it agrees."""

    @property
    def name(self) -> str:
        return " and ".join(cause.name for cause in self.causes)


@dataclass(frozen=True, slots=True)
class Nearest:
    """What comes nearest where nothing that is known agrees on every case."""

    name: str
    says: str
    agreed: int
    cases: int
    """Those on which the subject is wrong, or what is named would be."""


def observed(bench: Bench, failure: Failure, seed: int) -> list[Observation]:
    """The calls that a subject has answered: those that failed, and the scenarios of the mechanism and its kin."""
    if bench.mechanism.undetermined:
        return []
    grade = bench.subject.claims.grade(bench.dtype)
    scenarios = _scenarios(bench, (failure.sample, failure.found), grade, seed)
    return [*_failing(bench, failure, grade), *scenarios]


def diagnose(
    bench: Bench,
    failure: Failure,
    seed: int,
    *,
    without: Collection[str] = (),
    observations: Sequence[Observation] | None = None,
) -> Likeness | Nearest | None:
    """What the subject behaves like, or comes nearest to, by what was `observed`.

    Candidates named by `without` are taken for unknown.
    """
    candidates = [candidate for candidate in stock(bench) if candidate.name not in without]
    grades = looser(bench.dtype, bench.subject.claims.grade(bench.dtype))
    if bench.mechanism.undetermined:
        return _by_laws(bench, failure, candidates, grades[0], seed)
    observations = observed(bench, failure, seed) if observations is None else observations
    functions = [candidate for candidate in faulty(bench) if candidate.name not in without]
    search = _Search(bench, candidates, functions, observations, grades[0], seed)
    found = search.likeness()
    for grade in grades[1:] if found is None else ():  # what has a mistake may be less precise than it claims as well
        coarse = _Search(bench, candidates, [], [o.at(grade) for o in observations], grade, seed)
        found = found or coarse.likeness(single=True)
    return found or _as_edited(bench, search, observations, seed) or search.nearest()


def _as_edited(bench: Bench, search: _Search, observations: Sequence[Observation], seed: int) -> Likeness | None:
    """The small edit of the definition that agrees on every case, if there is one and few others are like it."""
    edits = plausible(bench, search.wrong)
    found = _Search(bench, edits, [], observations, search.grade, seed).likeness(single=True) if edits else None
    if found is None or found.agreed < SURE or len(found.others) > ALIKE:
        return None
    return replaced(found, runner_up="", differs=0)


def _by_laws(
    bench: Bench, failure: Failure, candidates: Sequence[Candidate], grade: Grade, seed: int
) -> Likeness | None:
    """What breaks the very same laws on the same cases, and agrees with the subject where outputs are determined."""
    determined = sorted(_scenarios(bench, (), grade, seed), key=lambda o: o.right)
    if all(observation.right for observation in determined):  # then it is none of those that show there
        candidates = [c for c in candidates if c.words or c.name.startswith(f"{bench.mechanism.name}.")]
    possible = [c for c in candidates if all(o.stance(c) is not Stance.DIFFERS for o in determined)]
    signature = Signature(bench, failure, seed)
    found = [c for c in possible if signature.same(c)] if signature.broken else []
    if not found:
        return None
    others = tuple(other.name for other in found[1:])
    return Likeness((_cause(found[0]),), len(signature.broken), others, by_laws=True, candidate=found[0])


def _failing(bench: Bench, failure: Failure, grade: Grade) -> Iterator[Observation]:
    """The calls that the broken law makes of the failing case, as it was found and as it was made small."""
    law = law_of(bench.mechanism, failure.law)
    for sample in dict.fromkeys((failure.sample, failure.found)):
        trial = Tracing(bench, sample)
        if law is not None and law.name != "definition":
            with contextlib.suppress(SpecError):
                judged(trial, law, [grade])
        for settled in {(): trial.base, **trial.asked}.values():
            observation = Observation(trial, settled, grade)
            if observation.answered():
                yield observation


def _scenarios(bench: Bench, apart_from: Sequence[Sample], grade: Grade, seed: int) -> Iterator[Observation]:
    """The scenarios of the mechanism and its kin that the subject answers, the smallest first.

    Of what is sparing with shapes they are those of the mechanism alone.
    """
    m, claims = bench.mechanism, bench.subject.claims
    scenarios: Iterable[Sample] = scenarios_of(m, claims, seed=seed, dtype=bench.dtype)
    if claims.sparing:
        scenarios = plan(m, claims, PROFILES["quick"], seed, bench.dtype).scenarios
    for sample in sorted(scenarios, key=lambda sample: sample.entries):
        if sample.entries <= EXPLAINED_ENTRIES and sample not in apart_from and not bench.faults["hung"]:
            trial = Trial(replaced(bench, mechanism=sample.mechanism), sample)
            observation = Observation(trial, trial.base, grade)
            if observation.answered():
                yield observation


class _Search:
    """The search among all candidates, on what a subject has answered."""

    def __init__(
        self,
        bench: Bench,
        candidates: Sequence[Candidate],
        functions: Sequence[Candidate],
        observations: Sequence[Observation],
        grade: Grade,
        seed: int,
    ) -> None:
        self.bench, self.candidates, self.functions = bench, candidates, functions
        self.grade, self.seed = grade, seed
        self.wrong = [o for o in observations if not o.right]
        self.right = [o for o in observations if o.right]

    @property
    def observations(self) -> list[Observation]:
        return [*self.wrong, *self.right]

    def likeness(self, *, single: bool = False) -> Likeness | None:
        """What agrees on every case: a mistake or a word, else a faulty function, else, unless `single`, a pair."""
        if not self.wrong:
            return None
        found = self.confirmed([candidate for candidate in self.candidates if self.fits(candidate)])
        found = found or self.confirmed(list(self.fitting_functions()))
        found = found or self.confirmed(list(self.conditional()))
        found = found or self.confirmed([] if single else list(self.pairs()))
        if not found:
            return None
        best, *others = found
        runner_up, differs = self.runner_up({part.name for c in found for part in (c, *c.parts)})
        return Likeness(
            tuple(_cause(part) for part in best.parts or (best,)),
            sum(o.stance(best) is Stance.AGREES for o in self.observations),
            tuple(other.name for other in others),
            runner_up=runner_up.name if runner_up else "",
            differs=differs,
            changed=best.changed,
            candidate=best,
        )

    def fits(self, candidate: Candidate) -> bool:
        return _fit(self.stances(candidate))

    def stances(self, candidate: Candidate) -> list[Stance]:
        """How a candidate stands on each case, as far as the first on which it differs."""
        found = []
        for observation in self.observations:
            found.append(observation.stance(candidate))
            if found[-1] is Stance.DIFFERS:
                break
        return found

    def fitting_functions(self) -> Iterator[Candidate]:
        """The faulty functions that fit, as far as a number of calls allows."""
        calls = 0
        for function in self.functions:
            stances = self.stances(function)
            calls += len(stances)
            if _fit(stances) and stances.count(Stance.AGREES) >= EVIDENCE:
                yield function
            if calls > CALLS:
                return

    def confirmed(self, found: Sequence[Candidate]) -> list[Candidate]:
        """Those that still agree with the subject on fresh cases, which are chosen for that."""
        left, asked = list(found), 0
        for observation in self.fresh() if left else ():
            telling = any(observation.tells(candidate) for candidate in left)
            if not telling and not any(observation.apart(left[0], other) for other in left[1:]):
                continue
            if observation.answered():
                (self.right if observation.right else self.wrong).append(observation)
                left = [candidate for candidate in left if observation.stance(candidate) is not Stance.DIFFERS]
                asked += 1
            if not left or asked == ASKED:
                break
        return left

    def fresh(self) -> Iterator[Observation]:
        m, claims = self.bench.mechanism, self.bench.subject.claims
        if claims.compiled:  # every shape costs a compilation
            return
        drawn = plan(m, claims, PROFILES["quick"], self.seed, self.bench.dtype)
        for sample in itertools.chain(drawn.pairs, drawn.further(FRESH)):
            if sample.entries <= EXPLAINED_ENTRIES:
                trial = Trial(self.bench, sample)
                yield Observation(trial, trial.base, self.grade, self.wrong[0].names)

    def conditional(self) -> Iterator[Candidate]:
        """Candidates that fit under a condition."""
        return conditional(self.bench, self.candidates, self.wrong, self.right, self.grade, self.seed)

    # Two at once

    def pairs(self) -> Iterator[Candidate]:
        """Two candidates that fit together, as none does alone.

        What one of them does by itself on some cases must be what the subject does there; it is the anchor, and the
        other one explains the rest.
        """
        wrong, right = self.wrong[:LOOKED_AT], self.right[:LOOKED_AT]
        possible = [c for c in self.candidates if all(o.stance(c) is not Stance.DIFFERS for o in right)]
        explained = {c: {o for o in wrong if o.stance(c) is Stance.AGREES} for c in possible}
        anchors = sorted((c for c in possible if explained[c]), key=lambda c: -len(explained[c]))[:ANCHORS]
        fitting = 0
        for pair in self.anchored(anchors, possible) if anchors else self.together(possible, wrong[0]):
            if self.fits(pair) and self.needed(pair):
                yield pair
                fitting += 1
            if fitting == FITTING:
                return

    def anchored(self, anchors: Sequence[Candidate], possible: Sequence[Candidate]) -> Iterator[Candidate]:
        """Pairs that explain the first case which an anchor leaves unexplained."""
        done: set[frozenset[Candidate]] = set()
        for anchor in anchors:
            rest = [o for o in self.wrong if o.stance(anchor) is not Stance.AGREES]
            for other in possible if rest else ():
                pair = frozenset((anchor, other))
                if pair in done or not anchor.joins(other):
                    continue
                done.add(pair)
                if rest[0].tells(other) and rest[0].stance(both := anchor.joined(other)) is Stance.AGREES:
                    yield both

    def together(self, possible: Sequence[Candidate], case: Observation) -> Iterator[Candidate]:
        """Pairs that explain one case, both parts of which tell themselves from the definition there."""
        telling = [c for c in possible if case.tells(c)]
        pairs = ((a, b) for a, b in itertools.combinations(telling, 2) if a.joins(b))
        for a, b in itertools.islice(pairs, TRIED):
            if case.stance(both := a.joined(b)) is Stance.AGREES:
                yield both

    def needed(self, pair: Candidate) -> bool:
        """Whether either part of a pair is needed on several cases."""
        return all(sum(o.stance(part) is Stance.DIFFERS for o in self.observations) >= WITNESSES for part in pair.parts)

    # What comes next

    def runner_up(self, named: Iterable[str] = ()) -> tuple[Candidate | None, int]:
        """What agrees with the subject on most of the failing cases, and on how many cases it differs."""
        few, named = self.wrong[:LOOKED_AT], set(named)
        near = [(sum(o.stance(c) is Stance.AGREES for o in few), c) for c in self.candidates if c.name not in named]
        near = sorted((item for item in near if 2 * item[0] >= len(few)), key=lambda item: -item[0])[:3]
        counted = [(sum(o.stance(c) is Stance.DIFFERS for o in self.observations), c) for _, c in near]
        differs, best = min(counted, key=lambda item: item[0], default=(0, None))
        return best, differs

    def nearest(self) -> Nearest | None:
        """What comes nearest where nothing fits."""
        best, differs = self.runner_up() if self.wrong else (None, 0)
        if best is None:
            return None
        agreed = sum(o.stance(best) is Stance.AGREES for o in self.observations)
        return Nearest(best.name, best.says, agreed, agreed + differs) if agreed >= NEAREST else None


def _fit(stances: Collection[Stance]) -> bool:
    return Stance.DIFFERS not in stances and Stance.AGREES in stances


def _cause(candidate: Candidate) -> Cause:
    everywhere = candidate.words.items() if candidate.where is None else ()
    convention, word = next(iter(everywhere), ("", ""))
    return Cause(candidate.name, candidate.says, convention, word)
