"""Edits of the line that a likeness changes which explain as much, and whether one of them explains more.

Another edit of the same line may give the same on nearly every case.
Where the subject raises an error, what gives no result either explains more than what has one there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..judging.bench import Bench
from ..numerics.grades import Grade
from .answered import scenarios_raising
from .candidates import Candidate
from .conditional import conditioned
from .likeness import Likeness
from .observations import Observation, Stance
from .search import cause
from .synthesis import edited


def closer(bench: Bench, likeness: Likeness, observations: Sequence[Observation], grade: Grade, seed: int) -> Likeness:
    """A likeness; or, if the subject raises an error where it has a result, the edit of its line that has none there.

    That edit agrees on all the `observations` as well.
    """
    candidate = likeness.candidate
    if candidate is None or not bench.faults["raised"] or bench.mechanism.by_reference:
        return likeness
    raising = [o for o in scenarios_raising(bench, grade, seed) if o.version(candidate) is not None]
    for rival in rivals(bench, candidate) if raising else ():
        if all(o.version(rival) is None for o in raising) and _fits(rival, candidate, observations):
            return replace(likeness, causes=(cause(rival),), others=(), changed=rival.changed, candidate=rival)
    return likeness


def rivals(bench: Bench, candidate: Candidate) -> Iterator[Candidate]:
    """The other edits of the line that a candidate changes, under its condition."""
    if len(candidate.changes) != 1 or candidate.at or candidate.place is not None:
        return
    for edit in edited(bench):
        if edit.changes.keys() == candidate.changes.keys() and edit.name != candidate.name:
            yield edit.told() if candidate.where is None else conditioned(edit, candidate.where)


def _fits(rival: Candidate, candidate: Candidate, observations: Sequence[Observation]) -> bool:
    """Whether a rival differs from the subject on no case, and agrees wherever a candidate does."""
    return all(
        o.stance(rival) is not Stance.DIFFERS
        and (o.stance(rival) is Stance.AGREES or o.stance(candidate) is not Stance.AGREES)
        for o in observations
    )
