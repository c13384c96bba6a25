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
from .conditional import conditioned, explains
from .conditions import EVERYWHERE, Condition, fitting
from .likeness import Likeness
from .observations import Observation, Stance
from .search import cause
from .steering import EXPLAINED_ENTRIES, imposed
from .synthesis import edited, resembling

SOUGHT = 0.3
"""CPU time in which rivals are sought, in which they are compared, and in which cases are drawn that tell of them."""
BESIDE = 8
"""Fresh cases without one of several conditions that the subject is asked about."""
ALIKE = 8
"""Edits that give the same as a changed line on every case and are told with it, at most."""
TELLING = 8
"""Cases that tell a likeness from its rivals and that the subject is asked about."""


def closer(bench: Bench, likeness: Likeness, observations: Sequence[Observation], grade: Grade, seed: int) -> Likeness:
    """A likeness, or the edit of its line that has no result where the subject raises an error as it has one there.

    That edit agrees on all the `observations` as well, perhaps under a wider condition: without one of several
    literals, or one that holds where errors are raised as well.
    """
    candidate = likeness.candidate
    if candidate is None or not bench.faults["raised"] or bench.mechanism.by_reference:
        return likeness
    known = itertools.chain(scenarios_raising(bench, grade, seed), _raising_beside(bench, candidate, grade, seed))
    raising = [o for o in known if o.version(candidate) is not None]
    wider = [*_wider(candidate.where or EVERYWHERE)]
    for edit in _of_its_line(bench, candidate) if raising else ():
        if not all(o.version(edit) is None for o in raising):
            continue
        learned = _also_where(raising, edit, candidate, observations) if candidate.where is not None else None
        for rival in (conditioned(edit, condition) for condition in (*wider, *filter(None, (learned,)))):
            if all(o.version(rival) is None for o in raising) and _fits(rival, candidate, observations):
                return called(likeness, rival)
    return likeness


def _also_where(
    raising: Sequence[Observation], edit: Candidate, candidate: Candidate, observations: Sequence[Observation]
) -> Condition | None:
    """The condition on which a candidate agrees or errors are raised, and on no right case that an edit changes."""
    wrong = [*raising, *(o for o in observations if o.stance(candidate) is Stance.AGREES)]
    right = [o for o in observations if o.right and o.stance(edit) is Stance.DIFFERS]
    fit = fitting([o.facts for o in wrong], [o.facts for o in right], exact=True)
    return None if fit is None else fit.condition


def outlasting(
    bench: Bench, likeness: Likeness, observations: Sequence[Observation], grade: Grade, seed: int
) -> Likeness | None:
    """A likeness, or the edit that still agrees where it does not; None where neither does.

    Cases are drawn that tell a changed line from other edits of it that agree on all the `observations`, which may cost
    more than it does, and what is made under a condition from edits of other lines as well.
    Those that none tells from a changed line are told with it.
    """
    candidate = likeness.candidate
    if candidate is None or bench.mechanism.by_reference or bench.subject.claims.compiled:
        return likeness
    wrong, where, until = [o for o in observations if not o.right], candidate.where or EVERYWHERE, now() + SOUGHT
    near = resembling(_rivals(bench, candidate), wrong, until=until)
    near = itertools.takewhile(lambda _: now() < until + SOUGHT, near)
    left = [candidate, *(one for one in near if _differs_nowhere(one, observations))]
    asked = 0
    for observation in _drawn(bench, where, grade, seed) if len(left) > 1 else ():
        if not any(observation.apart(left[0], one) for one in left[1:]):
            continue
        if observation.answered():
            left = [one for one in left if observation.stance(one) is not Stance.DIFFERS]
        elif observation.version(left[0]) is None and observation.raises():
            left = [one for one in left if observation.version(one) is None]
        else:
            continue
        asked += 1
        if asked == TELLING or not left:
            break
    if not left:
        return None
    first, *others = (one if one is candidate else conditioned(replace(one, where=None), where) for one in left)
    found = likeness if first is candidate else called(likeness, first)
    alike = {one.name: one for one in (*found.alike, *others)}
    names = dict.fromkeys((*found.others, *alike)) if first.changed else found.others
    others = [name for name in names if name != found.name]  # of two edits that are shown alike one will do
    return replace(found, others=tuple(others)[:ALIKE], alike=tuple(alike.values()))


def _raising_beside(bench: Bench, candidate: Candidate, grade: Grade, seed: int) -> Iterator[Observation]:
    """Fresh cases where a candidate is made, and without one of several conditions, on which the subject raises."""
    wider = _wider(candidate.where or EVERYWHERE)
    for condition in wider if not bench.subject.claims.compiled else ():
        yield from (o for o in itertools.islice(_drawn(bench, condition, grade, seed), BESIDE) if o.raises())


def _drawn(bench: Bench, condition: Condition, grade: Grade, seed: int) -> Iterator[Observation]:
    """Fresh cases moved to where a condition holds, as long as there is time."""
    m, claims, until = bench.mechanism, bench.subject.claims, now() + SOUGHT
    fresh = plan(m, claims, PROFILES["ci"], seed, bench.dtype)
    for sample in itertools.chain(fresh.pairs, fresh.more(200)):
        if now() > until:
            return
        small = sample.entries <= EXPLAINED_ENTRIES and sample.mechanism is m
        moved = imposed(sample, claims, condition) if small else None
        if moved is not None:
            trial = Trial(bench, moved)
            observation = Observation(trial, trial.base, grade)
            if observation.defined():
                yield observation


def _rivals(bench: Bench, candidate: Candidate) -> Iterator[Candidate]:
    """The other edits of a changed line, then those of the lines beside it, and of all of what is under a condition.

    They are made under that.
    """
    own = [*_of_its_line(bench, candidate)] if candidate.changed else []
    near = _beside(bench, candidate)
    others = [edit for edit in edited(bench) if edit.changes.keys() <= near] if own or candidate.where else []
    if candidate.where is not None:
        others += edited(bench)
    for edit in dict.fromkeys((*own, *others)):
        where = candidate.where
        if where is None:
            yield edit
        elif _texts(edit) != _texts(candidate):
            yield replace(edit, where=where, name=f"{edit.name} where {where.key}")


def _beside(bench: Bench, candidate: Candidate) -> set[str]:
    """The lines that a candidate changes, those that they read, and those that read them."""
    lines, own = bench.mechanism.definition, candidate.changes.keys()
    read = {used for line in own & lines.keys() for used in lines[line].uses & lines.keys()}
    return {*own, *read, *(name for name, line in lines.items() if line.uses & own)}


def _of_its_line(bench: Bench, candidate: Candidate) -> Iterator[Candidate]:
    """The other edits of the line that a candidate changes."""
    texts = _texts(candidate)
    if texts and not (candidate.at or candidate.only or candidate.place):
        yield from (e for e in edited(bench) if e.changes.keys() == texts.keys() and _texts(e) != texts)


def _texts(candidate: Candidate) -> dict[str, str]:
    """What a candidate makes of each line that it changes."""
    return {line: expression.text for line, expression in candidate.changes.items()}


def _wider(condition: Condition) -> Iterator[Condition]:
    """A condition without one of several literals, and as it is."""
    for left_out in condition.literals if len(condition.literals) > 1 else ():
        yield Condition(tuple(literal for literal in condition.literals if literal is not left_out))
    yield condition


def called(likeness: Likeness, rival: Candidate) -> Likeness:
    return replace(likeness, causes=(cause(rival),), others=(), changed=rival.changed, candidate=rival, alike=())


def _differs_nowhere(rival: Candidate, observations: Sequence[Observation]) -> bool:
    """Whether a rival differs from the subject on no case, and agrees on half of those on which that is wrong."""
    return explains(rival, [o for o in observations if not o.right]) and all(
        o.stance(rival) is not Stance.DIFFERS for o in observations
    )


def _fits(rival: Candidate, candidate: Candidate, observations: Sequence[Observation]) -> bool:
    """Whether a rival differs from the subject on no case, and agrees wherever a candidate does."""
    return all(
        o.stance(rival) is not Stance.DIFFERS
        and (o.stance(rival) is Stance.AGREES or o.stance(candidate) is not Stance.AGREES)
        for o in observations
    )
