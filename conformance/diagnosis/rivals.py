"""Edits that explain as much as a likeness does, and whether one of them explains more.

What is told under a condition shows on few cases, and an edit of another line may give the same on nearly all of them.
Where the subject raises an error, what gives no result either explains more than what has one there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..judging.bench import Bench
from ..judging.trial import Trial
from ..numerics.grades import Grade
from .answered import scenarios_raising
from .candidates import Candidate
from .clock import now
from .conditional import conditioned
from .conditions import EVERYWHERE, Condition
from .likeness import Likeness
from .observations import Observation, Stance
from .search import cause
from .steering import EXPLAINED_ENTRIES, imposed
from .synthesis import edited, resembling

SOUGHT = 0.3
"""CPU time in which rivals are sought, and cases that tell them apart."""
BESIDE = 8
"""Fresh cases without one of several conditions that the subject is asked about."""
TELLING = 6
"""Cases that tell a likeness from its rivals and that the subject is asked about."""


def closer(bench: Bench, likeness: Likeness, observations: Sequence[Observation], grade: Grade, seed: int) -> Likeness:
    """A likeness, or the edit of its line that has no result where the subject raises an error as it has one there.

    That edit agrees on all the `observations` as well, perhaps under a wider condition.
    """
    candidate = likeness.candidate
    if candidate is None or not bench.faults["raised"] or bench.mechanism.by_reference:
        return likeness
    known = itertools.chain(scenarios_raising(bench, grade, seed), _raising_beside(bench, candidate, grade, seed))
    raising = [o for o in known if o.version(candidate) is not None]
    for rival in _of_its_line(bench, candidate) if raising else ():
        if all(o.version(rival) is None for o in raising) and _fits(rival, candidate, observations):
            return _as(likeness, rival)
    return likeness


def outlasting(
    bench: Bench, likeness: Likeness, observations: Sequence[Observation], grade: Grade, seed: int
) -> Likeness | None:
    """A likeness under a condition, or the edit that still agrees where it does not; None where neither does.

    Cases are drawn that tell it from other edits that agree on all the `observations` under the same condition.
    """
    candidate = likeness.candidate
    if candidate is None or candidate.where is None or bench.mechanism.by_reference or bench.subject.claims.compiled:
        return likeness
    wrong = [o for o in observations if not o.right]
    near = resembling(_under_its_condition(bench, candidate), wrong, until=now() + SOUGHT)
    left = [candidate, *(one for one in near if _fits(one, candidate, observations))]
    asked = 0
    for observation in _drawn(bench, candidate.where, grade, seed) if len(left) > 1 else ():
        if not any(observation.apart(left[0], one) for one in left[1:]) or not observation.answered():
            continue
        left = [one for one in left if observation.stance(one) is not Stance.DIFFERS]
        asked += 1
        if asked == TELLING or not left:
            break
    if not left:
        return None
    if left[0] is candidate:
        return likeness
    return _as(likeness, conditioned(replace(left[0], where=None), left[0].where or EVERYWHERE))


def _raising_beside(bench: Bench, candidate: Candidate, grade: Grade, seed: int) -> Iterator[Observation]:
    """Fresh cases on which one of several conditions does not hold and the subject raises an error."""
    *wider, _ = _wider(candidate.where or EVERYWHERE)
    for condition in wider if not bench.subject.claims.compiled else ():
        yield from (o for o in itertools.islice(_drawn(bench, condition, grade, seed), BESIDE) if o.raises())


def _drawn(bench: Bench, condition: Condition, grade: Grade, seed: int) -> Iterator[Observation]:
    """Fresh cases moved to where a condition holds, as long as there is time."""
    m, claims, until = bench.mechanism, bench.subject.claims, now() + SOUGHT
    fresh = plan(m, claims, PROFILES["ci"], seed, bench.dtype)
    for sample in itertools.chain(fresh.pairs, fresh.further(200)):
        if now() > until:
            return
        small = sample.entries <= EXPLAINED_ENTRIES and sample.mechanism is m
        moved = imposed(sample, claims, condition) if small else None
        if moved is not None:
            trial = Trial(bench, moved)
            observation = Observation(trial, trial.base, grade)
            if observation.defined():
                yield observation


def _under_its_condition(bench: Bench, candidate: Candidate) -> Iterator[Candidate]:
    """The edits of the definition, each where a candidate is made."""
    where = candidate.where or EVERYWHERE
    for edit in edited(bench):
        yield replace(edit, where=where, name=f"{edit.name} where {where.key}")


def _of_its_line(bench: Bench, candidate: Candidate) -> Iterator[Candidate]:
    """The other edits of the line that a candidate changes, under its condition, the widest form of that first."""
    if len(candidate.changes) != 1 or candidate.at or candidate.place is not None:
        return
    for edit in edited(bench):
        if edit.changes.keys() == candidate.changes.keys() and edit.name != candidate.name:
            yield from (conditioned(edit, condition) for condition in _wider(candidate.where or EVERYWHERE))


def _wider(condition: Condition) -> Iterator[Condition]:
    """A condition without one of several literals, and as it is."""
    for left_out in condition.literals if len(condition.literals) > 1 else ():
        yield Condition(tuple(literal for literal in condition.literals if literal is not left_out))
    yield condition


def _as(likeness: Likeness, rival: Candidate) -> Likeness:
    return replace(likeness, causes=(cause(rival),), others=(), changed=rival.changed, candidate=rival)


def _fits(rival: Candidate, candidate: Candidate, observations: Sequence[Observation]) -> bool:
    """Whether a rival differs from the subject on no case, and agrees wherever a candidate does."""
    return all(
        o.stance(rival) is not Stance.DIFFERS
        and (o.stance(rival) is Stance.AGREES or o.stance(candidate) is not Stance.AGREES)
        for o in observations
    )
