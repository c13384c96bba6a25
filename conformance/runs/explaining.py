"""The failure that represents a group, and how it is explained: made small, named, told when and where it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..data.plain import cause_of, storable, trace_of
from ..diagnosis.answered import observed
from ..diagnosis.candidates import anywhere
from ..diagnosis.clock import now
from ..diagnosis.derivatives import OwnDerivatives, own_derivatives
from ..diagnosis.history import prepared, retraced
from ..diagnosis.likeness import Likeness, Nearest
from ..diagnosis.maps import mapped
from ..diagnosis.meant import fixed_option
from ..diagnosis.naming import diagnose
from ..diagnosis.observations import Observation
from ..diagnosis.repeated import Sought
from ..diagnosis.scale import from_which_sizes, wrong_rows
from ..diagnosis.separation import When, separated
from ..diagnosis.witness import describe
from ..judging.bench import Bench
from ..judging.cells import Cell, Failure, Result, is_large, law_of
from ..judging.shrinking import Reduced, made_small
from ..mechanisms.mechanism import Mechanism
from ..subjects.gradients import GradientSubject
from .groups import Group
from .options import OPTIONS, Options

T = TypeVar("T")

BLOCKS = 3
"""Failures of one subject that are made small and explained in full."""
AGAIN = 0.25
"""The share of its time in which a name is sought for a fault without a name that was shown before."""


@dataclass(slots=True)
class Explainer:
    """Explains failures, and keeps what it has shown in full of each subject: one fault gets one block."""

    options: Options
    deadline: float | None = None
    shown: dict[str, set[str]] = field(default_factory=dict)
    reduced: dict[str, Reduced] = field(default_factory=dict)
    blocks: int = BLOCKS
    """Faults of one subject that are explained in full at most."""
    sought: dict[str, Sought] = field(default_factory=dict)
    wrong: dict[str, set[str]] = field(default_factory=dict)
    """The operators of each subject that have failed."""
    followed: dict[tuple[str, str], OwnDerivatives] = field(default_factory=dict)
    """What the gradients of a subject follow from, by subject and mechanism."""

    def explained(self, group: Group, result: Result, failed: Sequence[Cell], head: Cell) -> dict[str, Any]:
        """The failure that represents all of the group, explained; the others are listed under it.

        What goes wrong in explaining it is told under `unexplained`: the verdict stands.
        """
        bench, first, shown = result.bench, head.failure, self.shown.setdefault(group.name, set())
        assert bench is not None
        assert first is not None
        steps = Steps()
        likeness = seen = when = fixed = None
        calls: Sequence[Observation] = []
        after = ""
        failure, room = first, len(shown) < self.blocks and self.options.explain_time > 0
        others, seed = [c.law for c in failed if c is not head and c.finding == head.finding], self.options.seed
        unnamed = _unnamed(group, head)
        times = self._times * (AGAIN if unnamed in shown else 1.0)
        with group.subject.session():
            follows = steps.tried(lambda: self._followed(group, bench, first)) if room else None
            room = room and (follows is None or follows.operator not in self.wrong.get(group.name, ()))
            if room and first.large is not None:
                seen = wrong_rows(first)
                when = steps.tried(lambda: self._at_scale(result, first))
            elif room:
                reduced = self.reduced.setdefault(group.name, Reduced())
                failure = steps.tried(lambda: made_small(first, result, reduced)) or first
                again = (
                    steps.tried(lambda: retraced(bench, failure, result, self.deadline)) if failure.dependent else None
                )
                failure, after = (again.failure, again.says) if again else (failure, "")
            lawful = head.law == "contract.precision" or law_of(group.mechanism, first.law) is not None
            begin = now()
            if room and lawful and first.large is None:
                calls = steps.tried(lambda: observed(bench, failure, seed)) or []
                likeness = steps.tried(lambda: self._named(group, bench, failure, calls, times))
            faults = _faults(likeness) if isinstance(likeness, Likeness) else {unnamed}
            full = room and not faults & shown
            if full and lawful and first.large is None:  # of what has a block already, where it is wrong is told there
                if head.law != "contract.precision":  # which is a matter of all entries
                    seen = steps.tried(lambda: mapped(bench, failure, seed))
                left = self.options.explain_time - (now() - begin)
                when = steps.tried(lambda: self._when(result, head, failure, calls, left, likeness))
                fixed = steps.tried(lambda: fixed_option(bench, calls))
            if failure.retraced:
                steps.tried(lambda: prepared(bench, failure.before))
            data = steps.tried(
                lambda: storable(
                    describe(failure, bench, group.target, likeness, others, seen, when, after, fixed, follows)
                )
            )
            if data is None:
                data = steps.tried(lambda: storable(describe(first, bench, group.target, None, others)))
        found: dict[str, Any] = {"unexplained": steps.failed} if steps.failed else {}
        if data is not None:
            data |= {} if group.source is None else {"target": group.source or group.target, "alone": not group.source}
            found["witness"] = {**data, "full": full}
        shown |= faults
        self.wrong.setdefault(group.name, set()).add(group.mechanism.operator)
        return found

    def _followed(self, group: Group, bench: Bench, failure: Failure) -> OwnDerivatives | None:
        """What wrong gradients follow from, which is the same in all dtypes."""
        key = group.name, group.mechanism.name
        if key not in self.followed and isinstance(bench.subject, GradientSubject) and failure.large is None:
            found = own_derivatives(bench, observed(bench, failure, self.options.seed))
            if found is None:
                return None
            self.followed[key] = found
        return self.followed.get(key)

    def _named(
        self, group: Group, bench: Bench, failure: Failure, calls: Sequence[Observation], times: float
    ) -> Likeness | Nearest | None:
        """What the subject behaves like, which is sought once for the same failure if nothing is found."""
        sought, seed = self.sought.setdefault(group.name, Sought()), self.options.seed
        before = sought.before(bench, failure, calls, times)
        if before is not None:
            return before.nearest
        found = diagnose(bench, failure, seed, observations=calls, times=times, likely=self.shown[group.name])
        sought.keep(bench, failure, calls, times, found)
        return found

    def _at_scale(self, result: Result, failure: Failure) -> When | None:
        """The condition under which a subject is wrong at the sizes of production."""
        assert result.bench is not None
        memory = int(self.options.memory * 2**30)
        return from_which_sizes(result.bench, failure, result, self.options.seed, memory, self.deadline)

    def _when(
        self,
        result: Result,
        head: Cell,
        failure: Failure,
        calls: Sequence[Observation],
        left: float,
        likeness: Likeness | Nearest | None,
    ) -> When | None:
        """The condition under which a subject is wrong; precision and what earlier calls do are another matter."""
        if head.law == "contract.precision" or failure.dependent or result.bench is None:
            return None
        seed, deadline, times = self.options.seed, self.deadline, self._times
        return separated(
            result.bench,
            failure,
            result,
            seed,
            observations=calls,
            deadline=deadline,
            times=times,
            left=left,
            likeness=likeness,
        )

    @property
    def _times(self) -> float:
        """How many times as long as usual an explanation may take."""
        return self.options.explain_time / float(OPTIONS["explain_time"].default)


@dataclass(slots=True)
class Steps:
    """Steps of an explanation, each of which may fail without the others."""

    failed: list[dict[str, str]] = field(default_factory=list)

    def tried(self, step: Callable[[], T]) -> T | None:
        try:
            return step()
        except Exception as error:
            self.failed.append({"says": cause_of(error), "trace": trace_of(error)})
            return None


def _faults(likeness: Likeness) -> set[str]:
    """What a likeness may be called, the same for mistakes that several mechanisms have in common."""
    names = (likeness.name, *likeness.others)
    return {*names} if likeness.changed else {*map(anywhere, names)}


def _unnamed(group: Group, head: Cell) -> str:
    """What represents a fault without a name: of the definition or of precision, the same in all of an operator."""
    if head.law == "definition":
        return f"{group.mechanism.operator}.{head.law}.{head.verdict}"
    if head.law == "contract.precision":
        return f"{group.mechanism.operator}.{head.law}.{head.says}"
    return f"{group.mechanism.name}.{head.law}"


def headline(failed: Sequence[Cell], mechanism: Mechanism) -> Cell:
    """The failure that says most: what is new, a law before the definition, and those before contracts and rejects.

    Of a call without an answer no law says more than the definition, which asks for one call and no other.
    """

    def rank(cell: Cell) -> tuple[int, bool, int]:
        if cell.law.startswith(("contract.", "convention.")) or cell.law in mechanism.rejects:
            return cell.level != "must", bool(cell.finding), 3
        return (
            cell.level != "must",
            bool(cell.finding),
            1 if cell.law == "definition" else 2 if cell.verdict == "error" or is_large(cell.law) else 0,
        )

    return min(failed, key=rank)
