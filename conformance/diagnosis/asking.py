"""Further calls that a subject is asked about, drawn to tell what agrees with it so far from what does not."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as replaced
from typing import Any

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..judging.bench import Bench
from ..judging.trial import Trial
from ..numerics.grades import Grade
from ..subjects.claims import Claims
from .candidates import Candidate
from .clock import now
from .conditions import CHOICES, Literal, literals
from .observations import Observation, Stance
from .steering import EXPLAINED_ENTRIES, beyond, drawn, freed, neighbours, otherwise_called

FRESH = 32
"""Cases that are drawn in search of some that tell."""
BASES = 3
"""Wrong cases beside which others are looked for."""
MOVED, MOVABLE = 8, 24
"""Wrong cases that are moved to where something does not hold that holds on all of them, until one tells; and those
that are looked at for that, for not every one can be moved."""
OUTSIDE = 0.2
"""CPU time in which fresh cases are drawn where something does not hold."""
VAIN = 16
"""Fresh cases after which something is taken to hold wherever a mistake shows, as what it is made under does."""
SHOWN = 8
"""Those on which what is made under a condition would show elsewhere."""
AGAIN = 3
"""Failing cases that are drawn again, each as often less one."""
RELATED = 2.0
"""The cost of a literal about two sizes, below which these are of a kind."""


class Asking:
    """What a subject has answered, and the further calls that it may be asked about."""

    def __init__(self, bench: Bench, observations: list[Observation], grade: Grade, seed: int) -> None:
        """Further calls that the subject answers are added to the `observations`."""
        self.bench, self.grade, self.seed = bench, grade, seed
        self.wrong = [o for o in observations if not o.right]
        self.right = [o for o in observations if o.right]
        self.given = observations
        self.known: dict[tuple[Any, ...], Observation] = {o.key: o for o in observations}
        self.repeated: set[str] = set()
        """The cases that were drawn again with other entries."""

    @property
    def observations(self) -> list[Observation]:
        return [*self.wrong, *self.right]

    def answered(self, observation: Observation) -> bool:
        """Ask the subject about a further call, if it was not asked; whether there is something to compare."""
        if observation.key not in self.known:
            if not observation.answered():
                return False
            self.known[observation.key] = observation
            (self.right if observation.right else self.wrong).append(observation)
            if observation.trial.sample.key not in self.repeated:
                self.given.append(observation)
        return True

    def observation(self, sample: Sample) -> Observation:
        """A further call, or what is known of it."""
        trial = Trial(replaced(self.bench, mechanism=sample.mechanism), sample)
        observation = Observation(trial, trial.base, self.grade, self.wrong[0].names)
        return self.known.get(observation.key, observation)

    def rivals(self, candidate: Candidate) -> Iterator[Observation]:
        """Wrong cases moved to where something does not hold that holds on all of those on which a candidate agrees.

        What is made only where that holds would agree on them as well.
        """
        agreeing, claims = self._agreeing(candidate), self.bench.subject.claims
        few = [o.trial.sample for o in agreeing[:MOVABLE]]
        for literal in _separate(agreeing):
            moved = itertools.islice(filter(None, (_without(sample, claims, literal) for sample in few)), MOVED)
            telling = (o for o in map(self.observation, moved) if o.defined() and o.tells(candidate))
            yield from itertools.islice(telling, 1)

    def outside(self, candidate: Candidate) -> Iterator[Observation]:
        """Fresh cases where something does not hold that holds on all wrong ones on which a candidate still agrees.

        They are drawn where no wrong case could be moved, one for each such thing, as long as there is time.
        With them come a few on which what is made under a condition would show, which does not hold there.
        """
        agreeing, m, claims = self._agreeing(candidate), self.bench.mechanism, self.bench.subject.claims
        made = {literal.key for literal in candidate.where.literals} if candidate.where is not None else set()
        left = {literal.key: literal for literal in _separate(agreeing) if literal.key not in made}
        until = now() + OUTSIDE
        everywhere = replaced(candidate, name=f"{candidate.name} everywhere", where=None) if made else None
        fresh = plan(m, claims, PROFILES["ci"], self.seed, self.bench.dtype) if left or made else None
        shown, tried = 0, Counter[Any]()
        for sample in itertools.chain(fresh.pairs, fresh.more(FRESH)) if fresh is not None else ():
            if not left and (everywhere is None or shown == SHOWN):
                return
            if sample.entries > EXPLAINED_ENTRIES or now() > until:
                continue
            if everywhere is not None and shown < SHOWN:
                observation = self.observation(sample)
                if observation.defined() and not observation.tells(candidate) and observation.tells(everywhere):
                    shown += 1
                    yield observation
            for key, literal in list(left.items()):
                if now() > until:
                    break
                moved = beyond(sample, claims, literal)
                tried[key] += 1
                observation = None if moved is None else self.observation(moved)
                if observation is not None and observation.defined() and observation.tells(candidate):
                    del left[key]
                    yield observation
                elif tried[key] == VAIN:
                    del left[key]

    def _agreeing(self, candidate: Candidate) -> list[Observation]:
        """The wrong cases on which a candidate agrees, of which others may be made, the plainest first."""
        if self.bench.subject.claims.compiled or candidate.function is not None:
            return []
        agreeing = [o for o in self.wrong if not o.settled.key and o.stance(candidate) is Stance.AGREES]
        return sorted(agreeing, key=_plainness)

    def again(self) -> Iterator[Sample]:
        """Cases on which the subject is wrong, with other entries."""
        for observation in self.wrong[:AGAIN]:
            sample = observation.trial.sample
            for seed in range(1, AGAIN):
                case = replaced(sample.case, seed=sample.case.seed + seed, literals={})
                moved = drawn(sample, case, self.bench.subject.claims)
                if moved is not None:
                    self.repeated.add(moved.key)
                    yield moved

    def beside(self, others: Callable[[Sample, Claims], Iterator[Sample]] | None = None) -> Iterator[Observation]:
        """Cases that differ from a wrong one in one option, optional input or size, or as `others` do.

        Without `others`, further wrong ones follow of which an option has another of its values, or an input is given.
        """
        claims = self.bench.subject.claims
        wrong = sorted((o for o in self.wrong if not o.settled.key), key=_plainness)
        bases = [o.trial.sample for o in wrong[: 1 if others else BASES]] if not claims.compiled else []
        further = itertools.chain.from_iterable(otherwise_called(sample, claims) for sample in bases[1:])
        for sample in itertools.chain((others or neighbours)(bases[0], claims) if bases else (), further):
            yield self.observation(sample)

    def fresh(self) -> Iterator[Observation]:
        m, claims = self.bench.mechanism, self.bench.subject.claims
        if claims.compiled:  # every shape costs a compilation
            return
        fresh = plan(m, claims, PROFILES["quick"], self.seed, self.bench.dtype)
        for sample in itertools.chain(self.again(), fresh.pairs, fresh.more(FRESH)):
            if sample.entries <= EXPLAINED_ENTRIES:
                yield self.observation(sample)


def _without(sample: Sample, claims: Claims, literal: Literal) -> Sample | None:
    """The case moved to where a literal does not hold, without what its scenario writes out if it has to be."""
    found = beyond(sample, claims, literal)
    if found is not None:
        return found
    other = freed(sample, claims)
    return None if other is None else beyond(other, claims, literal)


def _separate(agreeing: Sequence[Observation]) -> Iterator[Literal]:
    """What holds on all of some cases and may be what a fault is made under."""
    return filter(separate, literals([o.facts for o in agreeing])) if agreeing else iter(())


def _plainness(observation: Observation) -> int:
    """Cases of many different sizes come first: what is the same for two of them, or empty, is a matter of its own."""
    return -len(set(observation.facts.sizes.values()))


def separate(literal: Literal) -> bool:
    """Whether a literal is one that a fault is often made under: a choice of the caller, or a small size."""
    kind, value = literal.kind, literal.value
    small = (
        (kind == "from" and value > 1) or (kind == "up to" and value == 1) or (kind == "remainder" and value[0] == 2)
    )
    return small or kind in CHOICES or (kind in ("same", "less", "other") and literal.cost < RELATED)
