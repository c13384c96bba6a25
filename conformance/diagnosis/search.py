"""The search for a candidate that agrees with a subject on every call: one, one under a condition, or two together.

They are run on calls that the subject has answered, and on fresh ones, drawn to tell those apart which are still alike.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace as replaced

from ..judging.bench import Bench
from ..numerics.grades import Grade
from .asking import Asking
from .candidates import Candidate
from .clock import GRACE, now
from .conditional import conditional
from .conditions import EVERYWHERE, Condition, fitting, opposite
from .likeness import Cause, Likeness, Nearest
from .observations import Observation, Stance
from .steering import enlarged, otherwise_called

ASKED = 12
"""Fresh cases that the subject is asked about."""
BESIDE = 12
"""Cases beside a wrong one that the subject is asked about before."""
FEWER = (4, 4)
"""Cases beside a wrong one, and fresh ones, asked about before a subject is called what it is elsewhere."""
QUIET = 12
"""Cases that differ from a wrong one in an option, an input or a size, which it is asked about to be found right on."""
LOOKED_AT = 24
"""Cases of either kind, failing and not, on which the parts of a pair are looked for."""
COMPARED = 8
"""Failing cases on which what comes next is looked for."""
ANCHORS = 8
"""Candidates that explain some of the failing cases, to each of which a second one is sought."""
TRIED = 600
"""Pairs that are tried where no candidate explains any failing case by itself."""
FITTING = 4
"""Pairs that agree on everything, of which further ones are not sought."""
WITNESSES = 2
"""Cases on which either part of a pair must be needed, a case and the smaller one that was made of it counting once."""
CALLS = 1_000
"""Calls of faulty functions in one diagnosis."""
EVIDENCE = 5
"""Cases on which a faulty function agrees at least: it is one of many like it, with other tiles or other limits."""
PART = 5
"""Wrong cases on which a candidate agrees at least that is something else on others."""
NEAREST = 2
"""Cases on which what comes nearest agrees at least."""


class Search:
    """The search among all candidates, on what a subject has answered."""

    def __init__(
        self,
        bench: Bench,
        candidates: Sequence[Candidate],
        functions: Iterable[Candidate],
        observations: list[Observation],
        grade: Grade,
        seed: int,
        within: Condition = EVERYWHERE,
        *,
        until: float = math.inf,
        calls: int = CALLS,
        elsewhere: bool = False,
        known: Sequence[Candidate] = (),
    ) -> None:
        """Nothing is asked of calls on which `within` does not hold, and of functions so many `calls` at most.

        Further calls that the subject answers are added to the `observations`, for whatever is searched for next.
        What comes next is one of the `known` candidates, if these are more than those that are tried.
        The subject is asked about fewer cases before a name is given that was found `elsewhere`, and confirmed there.
        After `until`, of the clock of searches, nothing further is tried, and a little later nothing confirmed.
        """
        self.asking = Asking(bench, observations, grade, seed)
        self.calls, self.elsewhere = calls, elsewhere
        self.within, self.until = within, until
        self.candidates, self.functions = candidates, functions
        self.all = known or candidates
        self.decisive: list[Observation] = []
        """The cases on which candidates differed that agree on those before."""

    @property
    def asked(self) -> tuple[int, int]:
        """The cases beside a wrong one, and fresh ones, that the subject is asked about before a name is given."""
        return FEWER if self.elsewhere else (BESIDE, ASKED)

    def prolonged(self, seconds: float) -> Search:
        """The same search on the same calls, with so much time from now on at least."""
        other = copy.copy(self)
        other.until = max(self.until, now() + seconds)
        return other

    def likeness(self, *, pairs: bool = False, plainly: bool = False, alone: bool = False) -> Likeness | None:
        """What agrees on every case: a mistake or a word, else one under a condition, else a faulty function.

        With `pairs`, two mistakes at once; `plainly`, mistakes and words as they are alone.
        What is found `alone` is told without what comes next.
        """
        if not self.asking.wrong:
            return None
        steps = (self.fitting, self.worded, self.conditional, self.fitting_functions, self.partial)
        steps = (self.pairs,) if pairs else steps[:1] if plainly else steps
        found: list[Candidate] = []
        count = len(self.asking.observations)
        for step in steps:
            found = found or self.confirmed(list(step()))
        further = len(self.asking.observations) > count  # which may tell of a condition
        if not found and len(steps) > 1 and further:
            found = self.confirmed(list(self.conditional()))
        if not found:
            return None
        best, *others = found
        alike = tuple(other.told() for other in others)
        named = {part.name for c in found for part in (c, *c.parts)}
        runner_up, differs = (None, 0) if alone else self.runner_up(named)
        agreed, told = sum(o.stance(best) is Stance.AGREES for o in self.asking.observations), best.told()
        return Likeness(
            tuple(cause(part) for part in told.parts or (told,)),
            agreed,
            tuple(dict.fromkeys(other.name for other in alike if other.name != told.name)),
            runner_up=runner_up.told().name if runner_up else "",
            differs=differs,
            changed=told.changed,
            candidate=told,
            alike=alike,
        )

    def fitting(self) -> Iterator[Candidate]:
        """The candidates that fit as they are."""
        return filter(self.fits, self.in_time(self.candidates))

    def worded(self) -> Iterator[Candidate]:
        """Mistakes that fit by another word of a convention, which they may have kept from being identified.

        Where none agrees on any case by the words known, they are those that the subject follows but for NaN, by two
        words if not by one.
        """
        few, mistakes = self.asking.wrong[:COMPARED], [c for c in self.candidates if c.changes and not c.words]
        words = [c for c in self.candidates if c.words and not c.changes]
        near = [(self.agreements(c, few), c) for c in self.in_time(mistakes)]
        spoilt = [o for o in few if o.is_spoilt] if not any(agreed for agreed, _ in near) else []
        if spoilt:
            near = [(sum(o.returned_but_for_nan(c) for o in spoilt), c) for c in self.in_time(mistakes)]
        anchors = [c for agreed, c in sorted(near, key=lambda one: -one[0])[:ANCHORS] if agreed]
        two = [a.joined(b) for a, b in itertools.combinations(words, 2) if a.joins(b)] if spoilt else []
        for some in (words, two):
            pairs = (mistake.joined(word) for mistake in anchors for word in some if mistake.joins(word))
            found = [*filter(self.fits, self.in_time(pairs))]
            yield from found
            if found:
                return

    def in_time(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Candidates, as long as there is time."""
        return itertools.takewhile(lambda _: now() < self.until, candidates)

    def fits(self, candidate: Candidate) -> bool:
        """Whether a candidate differs on no case, and agrees on half of the wrong ones; of others it says nothing.

        Cases on which others differed are looked at first.
        """
        if any(o.stance(candidate) is Stance.DIFFERS for o in self.decisive):
            return False
        agreed, wrong = 0, len(self.asking.wrong)
        for number, observation in enumerate(self.asking.observations):
            stance = observation.stance(candidate)
            if stance is Stance.DIFFERS:
                self.decisive.insert(0, observation)
                return False
            agreed += stance is Stance.AGREES
            if number < wrong and 2 * (number + 1 - agreed) > wrong:  # it agrees on fewer, whatever follows
                return False
        return agreed > 0

    def stances(self, candidate: Candidate) -> list[Stance]:
        """How a candidate stands on each case, as far as the first on which it differs."""
        found = []
        for observation in self.asking.observations:
            found.append(observation.stance(candidate))
            if found[-1] is Stance.DIFFERS:
                break
        return found

    def fitting_functions(self) -> Iterator[Candidate]:
        """The faulty functions that fit, as far as a number of calls allows; if there is none, under a condition."""
        calls, found, explaining = 0, False, list[Candidate]()
        for function in self.in_time(self.functions):
            stances = self.stances(function)
            calls += len(stances)
            if fit(stances):
                yield function
                found = True
            elif Stance.DIFFERS not in stances[: len(self.asking.wrong)]:
                explaining.append(function)
            if calls > self.calls:
                break
        if not found:
            yield from conditional(self.asking, explaining, self.until)

    def confirmed(self, found: Sequence[Candidate]) -> list[Candidate]:
        """Those that still agree with the subject on fresh cases, which are chosen for that."""
        left, asked, (beside, fresh), until = list(found), 0, self.asked, max(self.until, now()) + GRACE
        near = itertools.chain(self.asking.rivals(found[0]), self.asking.beside()) if found else ()
        near = (o for o in near if o.defined() and any(o.tells(one) for one in left))
        for observation in itertools.chain(itertools.islice(near, beside), self.asking.fresh()) if left else ():
            if not (self.within.holds(observation.facts) and observation.defined()):
                continue
            telling = any(observation.tells(candidate) for candidate in left)
            if not telling and not any(observation.apart(left[0], other) for other in left[1:]):
                continue
            if self.asking.answered(observation):
                left = [candidate for candidate in left if observation.stance(candidate) is not Stance.DIFFERS]
                asked += 1
            if not left or asked == beside + fresh:
                break
            if now() > until:
                return []
        left = self.outlasting(left) if left and not self.elsewhere else left
        left = self.reaching(left) if left else left
        return [candidate for candidate in left if candidate.function is None or self.evidence(candidate) >= EVIDENCE]

    def outlasting(self, found: Sequence[Candidate]) -> list[Candidate]:
        """Those that agree as well on fresh cases where something does not hold that does on all wrong ones so far."""
        left = list(found)
        for observation in self.asking.outside(left[0]):
            if self.within.holds(observation.facts) and self.asking.answered(observation):
                left = [candidate for candidate in left if observation.stance(candidate) is not Stance.DIFFERS]
            if not left:
                break
        return left

    def reaching(self, found: Sequence[Candidate]) -> list[Candidate]:
        """Those that agree as well on cases beside a wrong one on which none of them is wrong.

        A subject that is wrong there has a fault that reaches further.
        """
        left, count = list(found), min(QUIET, self.asked[0])
        near = (itertools.islice(self.asking.beside(others), count) for others in (otherwise_called, enlarged))
        for observation in itertools.chain.from_iterable(near):
            quiet = self.within.holds(observation.facts) and observation.defined()
            if (
                not quiet
                or any(observation.tells(candidate) for candidate in left)
                or not self.asking.answered(observation)
            ):
                continue
            left = [candidate for candidate in left if observation.stance(candidate) is not Stance.DIFFERS]
        return left

    def evidence(self, candidate: Candidate) -> int:
        """The cases on which a candidate agrees, each once, whatever its entries are."""
        different = (o for o in self.asking.observations if o.trial.sample.key not in self.asking.repeated)
        return sum(o.stance(candidate) is Stance.AGREES for o in different)

    def conditional(self) -> Iterator[Candidate]:
        """Candidates that fit under a condition."""
        return conditional(self.asking, self.candidates, self.until)

    def partial(self) -> Iterator[Candidate]:
        """Candidates that fit in those outputs alone that are wrong on some case, everywhere or under a condition."""
        names = {name for o in self.asking.observations for name in o.names}
        wrong = {name for o in self.asking.wrong for name in o.wrong}
        if wrong == names:
            return
        outputs = tuple(name for name in self.asking.bench.mechanism.outputs if name in wrong)
        found = [confined(c, outputs) for c in self.candidates if c.function is None and not c.words]
        fit = [*filter(self.fits, self.in_time(found))]
        yield from fit or conditional(self.asking, found, self.until)

    # Two at once

    def pairs(self) -> Iterator[Candidate]:
        """Two candidates that fit together, as none does alone.

        What one of them does by itself on some cases must be what the subject does there; it is the anchor, and the
        other one explains the rest.
        """
        wrong = self.asking.wrong[:LOOKED_AT]
        explained = {
            c: sum(o.resembles(c) and o.stance(c) is Stance.AGREES for o in wrong)
            for c in self.in_time(self.candidates)
        }
        possible = (c for c in sorted(explained, key=lambda c: -explained[c]) if explained[c] and self.harmless(c))
        anchors = list(itertools.islice(possible, ANCHORS))
        fitting = 0
        for pair in self.anchored(anchors) if anchors else self.together(min(wrong, key=lambda o: o.entries)):
            if self.fits(pair) and self.needed(pair):
                yield pair
                fitting += 1
            if fitting == FITTING:
                return

    def harmless(self, candidate: Candidate) -> bool:
        """Whether a candidate differs from the subject on no case on which that is right."""
        return all(o.stance(candidate) is not Stance.DIFFERS for o in self.asking.right[:LOOKED_AT])

    def anchored(self, anchors: Sequence[Candidate]) -> Iterator[Candidate]:
        """Pairs that explain the first case which an anchor leaves unexplained."""
        done: set[frozenset[Candidate]] = set()
        for anchor in anchors:
            rest = [o for o in self.asking.wrong if o.stance(anchor) is not Stance.AGREES]
            for other in self.in_time(self.candidates) if rest else ():
                pair = frozenset((anchor, other))
                if pair in done or not anchor.joins(other):
                    continue
                done.add(pair)
                if rest[0].tells(other) and rest[0].stance(both := anchor.joined(other)) is Stance.AGREES:
                    yield from (both,) if self.harmless(other) else ()

    def together(self, case: Observation) -> Iterator[Candidate]:
        """Pairs that explain one case, both parts of which tell themselves from the definition there."""
        telling = [c for c in self.candidates if case.tells(c) and self.harmless(c)]
        pairs = ((a, b) for a, b in itertools.combinations(telling, 2) if a.joins(b))
        for a, b in itertools.islice(pairs, TRIED):
            if now() > self.until:
                return
            if case.stance(both := a.joined(b)) is Stance.AGREES:
                yield both

    def needed(self, pair: Candidate) -> bool:
        """Whether either part of a pair is needed on several cases."""
        return all(len(self.telling_without(part)) >= WITNESSES for part in pair.parts)

    def telling_without(self, part: Candidate) -> set[str]:
        """The labels of the cases that one part of a pair does not explain."""
        return {o.trial.sample.case.label for o in self.asking.observations if o.stance(part) is Stance.DIFFERS}

    def parts(self) -> Iterator[Condition]:
        """Where a candidate agrees that elsewhere does not, by one literal; the most cases first."""
        near = [
            (sum(o.stance(c) is Stance.AGREES for o in self.asking.wrong), c) for c in self.in_time(self.candidates)
        ]
        most = sorted((one for one in near if one[0] >= PART), key=lambda one: -one[0])[:ANCHORS]
        for agreed, candidate in most:
            if 2 * agreed > len(self.asking.wrong):
                yield from self.parts_of(candidate)

    def parts_of(self, candidate: Candidate) -> Iterator[Condition]:
        inside = [o.facts for o in self.asking.wrong if o.stance(candidate) is Stance.AGREES]
        outside = [o.facts for o in self.asking.wrong if o.stance(candidate) is Stance.DIFFERS]
        fit, other = fitting(inside, outside, most=1, exact=True), fitting(outside, inside, most=1)
        if fit is not None and fit.condition.literals:
            yield fit.condition
        literals = other.condition.literals if other is not None and not other.partly else ()
        without = opposite(literals[0]) if literals else None
        if without is not None:
            yield Condition((without,))

    # What comes next

    def runner_up(self, named: Iterable[str] = ()) -> tuple[Candidate | None, int]:
        """What agrees with the subject on most of the failing cases, and on how many cases it differs."""
        few, named = self.asking.wrong[:COMPARED], set(named)
        known = (c for c in self.in_time(self.all) if c.name not in named)
        near = [(self.agreements(c, few), c) for c in known]
        near = sorted((item for item in near if item[0]), key=lambda item: -item[0])[:3]
        counted = [(sum(o.stance(c) is Stance.DIFFERS for o in self.asking.observations), c) for _, c in near]
        differs, best = min(counted, key=lambda item: item[0], default=(0, None))
        return best, differs

    def agreements(self, candidate: Candidate, few: Sequence[Observation]) -> int:
        """On how many cases a candidate agrees; none where it differs on more than half of them."""
        agreed = differs = 0
        for observation in few:
            near = candidate.words or candidate.function or observation.resembles(candidate)
            agrees = near and observation.stance(candidate) is Stance.AGREES
            agreed += bool(agrees)
            differs += not agrees
            if 2 * differs > len(few):
                return 0
        return agreed

    def nearest(self) -> Nearest | None:
        """What comes nearest where nothing fits."""
        best, differs = self.runner_up() if self.asking.wrong else (None, 0)
        if best is None:
            return None
        agreed = sum(o.stance(best) is Stance.AGREES for o in self.asking.observations)
        return Nearest(best.told().name, best.says, agreed, agreed + differs) if agreed >= NEAREST else None


def confined(candidate: Candidate, outputs: tuple[str, ...]) -> Candidate:
    """A candidate that shows in some outputs alone."""
    return replaced(candidate, name=f"{candidate.name} in {' and '.join(outputs)}", only=outputs)


def fit(stances: Collection[Stance]) -> bool:
    return Stance.DIFFERS not in stances and Stance.AGREES in stances


def cause(candidate: Candidate) -> Cause:
    everywhere = candidate.words.items() if candidate.where is None else ()
    convention, word = next(iter(everywhere), ("", ""))
    return Cause(candidate.name, candidate.says, convention, word)
