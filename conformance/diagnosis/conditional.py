"""A known mistake, or an edit of the definition, that is made only under a condition.

What agrees with a subject on every case on which that is wrong may be made under a condition only, if the subject is
right where the mistake would show.
The condition is learned on the cases on which it shows, and tested as that of a failure is: by moving cases to either
side of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..judging.bench import Bench
from .asking import Asking
from .candidates import Candidate
from .clock import GRACE, now
from .conditions import Condition, Fit, fitting, others_fitting
from .facts import facts_of
from .observations import Observation, Stance
from .parting import Parting, Point
from .phrases import where
from .steering import EXPLAINED_ENTRIES, as_case

LEAST = 2
"""Wrong cases that a mistake explains at least before a condition of it is looked for."""
TRIED = 6
"""Mistakes whose conditions are tested at most, those with the simplest conditions first."""
SECONDS = 1.0
"""CPU time after which the condition of a mistake is given up."""
MANY = 200
"""Fresh cases among which those are looked for that tell a condition from others that fit as well."""
CONTESTED = 12
"""Those of them that are tried."""


def conditional(asking: Asking, candidates: Sequence[Candidate], until: float = math.inf) -> Iterator[Candidate]:
    """The candidates that agree on every wrong case, each under the condition that keeps it from all right ones.

    After `until`, of the clock of searches, none is looked for.
    What the subject answers in the search for one condition is known to whatever follows.
    """
    if len(asking.wrong) < LEAST:
        return
    found = []
    for candidate in candidates:
        if now() > until:
            break
        if explains(candidate, asking.wrong):
            points, apart = points_of(asking, candidate)
            fit = fitting([p.facts for p in points if p.wrong], [p.facts for p in points if not p.wrong], exact=True)
            if fit is not None and fit.condition.literals:
                found.append(((fit.score, apart), candidate))
    for number, (_, candidate) in enumerate(sorted(found, key=lambda one: one[0])[:TRIED]):
        if now() > until:
            return
        if number and not explains(candidate, asking.wrong):
            continue
        search = Telling(asking, points_of(asking, candidate)[0], candidate)
        search.seconds = min(search.seconds, until + GRACE - now())
        stood = search.stands()
        if stood is not None and stood[1] and not search.refuted and stood[0].condition.literals:
            yield conditioned(candidate, stood[0].condition)


def points_of(asking: Asking, candidate: Candidate) -> tuple[list[Point], int]:
    """The wrong cases, and the right ones on which a candidate shows, as points; and how many these are."""
    wrong = [at(asking.bench, o, wrong=True) for o in asking.wrong]
    apart = [at(asking.bench, o, wrong=False) for o in asking.right if o.stance(candidate) is Stance.DIFFERS]
    return [*wrong, *apart], len(apart)


def explains(candidate: Candidate, wrong: Sequence[Observation]) -> bool:
    """Whether a candidate differs on no wrong case, and agrees on half of them; of others it may say nothing."""
    silent = 0
    for observation in wrong:
        stance = observation.stance(candidate)
        silent += stance is Stance.SILENT
        if stance is Stance.DIFFERS or 2 * silent > len(wrong):
            return False
    return True


def conditioned(candidate: Candidate, condition: Condition) -> Candidate:
    """A candidate that is made where a condition holds."""
    candidate = candidate.told()
    if not condition.literals:
        return candidate
    words = where(condition)
    says = f"{candidate.says}, where {words}" if candidate.changed else candidate.says
    return replace(candidate, name=f"{candidate.name} where {words}", says=says, where=condition)


def at(bench: Bench, observation: Observation, *, wrong: bool) -> Point:
    """The call that was observed as a point, its arrays written out where they are not those of a case."""
    sample, settled = observation.trial.sample, observation.settled
    if settled.key:
        sample = as_case(sample, settled.values, bench.subject.claims) or sample
    return Point(sample, wrong, observation.facts, observation.facts)


class Telling(Parting):
    """The search for the condition of a candidate, on cases that tell it from the definition."""

    exact = True
    seconds = SECONDS

    def __init__(self, asking: Asking, points: Sequence[Point], candidate: Candidate) -> None:
        super().__init__(asking.bench, points, asking.seed)
        self.asking, self.candidate = asking, candidate
        self.refuted = False
        """Whether the subject was wrong in another way than the candidate is."""

    @property
    def spent(self) -> bool:
        return self.refuted or super().spent

    def stands(self) -> tuple[Fit, bool] | None:
        """The condition that stands, also on cases that tell it from others that are as simple."""
        stood = super().stands()
        while stood is not None and stood[1] and self.contested(stood[0]):
            stood = super().stands()
        return stood

    def contested(self, fit: Fit) -> bool:
        """Whether a fresh case speaks against a condition that tells it from another one that fits as well."""
        m, claims = self.bench.mechanism, self.bench.subject.claims
        if claims.compiled:  # every shape costs a compilation
            return False
        wrong, right = ([p.facts for p in self.points if p.wrong is side] for side in (True, False))
        left = [*others_fitting(fit.condition, wrong, right, self.untested)]
        fresh = plan(m, claims, PROFILES["ci"], self.seed, self.bench.dtype)
        most = self.tries + CONTESTED
        for sample in itertools.chain(fresh.pairs, fresh.more(MANY)) if left else ():
            if not left or self.spent or self.tries >= most:
                return False
            if sample.entries > EXPLAINED_ENTRIES:
                continue
            facts = facts_of(sample)
            holds = fit.condition.holds(facts)
            if all(other.holds(facts) is holds for other in left):
                continue
            point = self.tried(sample)
            if point is not None and self.speaks_against(point, fit):
                return True
            if point is not None:
                left = [other for other in left if other.holds(facts) is holds]
        return False

    def wrong(self, sample: Sample) -> bool | None:
        try:
            observation = self.asking.observation(sample)
        except (Unfit, SpecError):
            return None
        if not self.asking.answered(observation):
            return None
        stance = observation.stance(self.candidate)
        self.refuted |= stance is Stance.DIFFERS and not observation.right
        return {Stance.AGREES: True, Stance.DIFFERS: False, Stance.SILENT: None}[stance]
