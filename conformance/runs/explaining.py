"""The failure that represents a group, and how it is explained: made small, named, told when and where it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..data.plain import cause_of, storable, trace_of
from ..diagnosis.answered import observed
from ..diagnosis.candidates import anywhere
from ..diagnosis.clock import now
from ..diagnosis.derivatives import OwnDerivatives, ends_alike, own_derivatives
from ..diagnosis.history import Retraced, prepared, retraced
from ..diagnosis.likeness import Likeness, Nearest
from ..diagnosis.maps import Map, mapped
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
class Told:
    """What was found out about a subject when its earlier failures were explained."""

    shown: set[str] = field(default_factory=set)
    """The faults that were shown in full: one fault gets one block."""
    wrong: set[str] = field(default_factory=set)
    """The operators that have failed."""
    reduced: Reduced = field(default_factory=Reduced)
    sought: Sought = field(default_factory=Sought)
    follows: dict[str, OwnDerivatives] = field(default_factory=dict)
    """What the gradients of a mechanism follow from, which is the same in all dtypes."""


@dataclass(slots=True)
class Explainer:
    """Explains failures, one after the other."""

    options: Options
    deadline: float | None = None
    blocks: int = BLOCKS
    """Faults of one subject that are explained in full at most."""
    told: dict[str, Told] = field(default_factory=dict)
    """What was told of each subject, by its name."""

    def explained(self, group: Group, result: Result, failed: Sequence[Cell], head: Cell) -> dict[str, Any]:
        """The failure that represents all of the group, explained; the others are listed under it.

        What goes wrong in explaining it is told under `unexplained`: the verdict stands.
        """
        told = self.told.setdefault(group.name, Told())
        others = [c.law for c in failed if c is not head and c.finding == head.finding]
        with group.subject.session():
            found = Explanation(self.options, self.deadline, told, group, result, head)
            if self.options.explain_time > 0 and len(told.shown) < self.blocks:
                found.make()
            data = found.described(others)
        told.shown |= found.faults
        told.wrong.add(group.mechanism.operator)
        return data


@dataclass(slots=True)
class Explanation:
    """What is found out about one failure, step by step; a step that fails costs itself alone."""

    options: Options
    deadline: float | None
    told: Told
    group: Group
    result: Result
    head: Cell
    bench: Bench = field(init=False)
    failure: Failure = field(init=False)
    """The failure, made small."""
    full: bool = False
    """Whether it is shown in full."""
    likeness: Likeness | Nearest | None = None
    seen: Map | None = None
    when: When | None = None
    fixed: tuple[str, Any] | None = None
    follows: OwnDerivatives | None = None
    after: str = ""
    """The calls that it needs first, in words."""
    troubles: list[dict[str, str]] = field(default_factory=list)
    """The steps that failed."""

    def __post_init__(self) -> None:
        assert self.result.bench is not None
        assert self.head.failure is not None
        self.bench, self.failure = self.result.bench, self.head.failure

    @property
    def faults(self) -> set[str]:
        """What the fault may be called."""
        return _faults(self.likeness) if isinstance(self.likeness, Likeness) else {_unnamed(self.group, self.head)}

    def make(self) -> None:
        """Find out as much as there is time for."""
        if self.failure.large is not None:
            self.full, self.seen = not self.faults & self.told.shown, wrong_rows(self.failure)
            self.when = self.tried(self._at_scale)
            return
        self.follows = self.tried(self._followed)
        if self.follows is not None and self.follows.operator in self.told.wrong:  # of which all is told there
            return
        self.failure = self.tried(lambda: made_small(self.failure, self.result, self.told.reduced)) or self.failure
        again = self.tried(self._retraced) if self.failure.dependent else None
        self.failure, self.after = (again.failure, again.says) if again else (self.failure, "")
        lawful = self._of_precision or law_of(self.group.mechanism, self.failure.law) is not None
        begin = now()
        calls = (self.tried(self._observed) if lawful else None) or []
        self.likeness = self.tried(lambda: self._named(calls)) if lawful else None
        self.full = not self.faults & self.told.shown
        if self.full and lawful:  # where what has a block already is wrong is told there
            self.seen = None if self._of_precision else self.tried(self._mapped)
            self.when = self.tried(lambda: self._when(calls, self.options.explain_time - (now() - begin)))
            self.fixed = self.tried(lambda: fixed_option(self.bench, calls))

    def described(self, others: list[str]) -> dict[str, Any]:
        """All that was found out, as plain data."""
        if self.failure.retraced:
            self.tried(lambda: prepared(self.bench, self.failure.before))
        bench, target, source, found = self.bench, self.group.target, self.group.source, dict[str, Any]()
        whole = (self.likeness, others, self.seen, self.when, self.after, self.fixed, self.follows)
        data = self.tried(lambda: storable(describe(self.failure, bench, target, *whole)))
        first = self.head.failure
        if data is None and first is not None:
            data = self.tried(lambda: storable(describe(first, bench, target, None, others)))
        if data is not None:
            data |= {} if source is None else {"target": source or target, "alone": not source}
            found = {"witness": {**data, "full": self.full}}
        return {"unexplained": self.troubles, **found} if self.troubles else found

    def tried(self, step: Callable[[], T]) -> T | None:
        """What a step gives; None where it fails."""
        try:
            return step()
        except Exception as error:
            self.troubles.append({"says": cause_of(error), "trace": trace_of(error)})
            return None

    # The steps

    @property
    def _of_precision(self) -> bool:
        return self.head.law == "contract.precision"

    def _at_scale(self) -> When | None:
        """The condition under which a subject is wrong at the sizes of production."""
        memory = int(self.options.memory * 2**30)
        return from_which_sizes(self.bench, self.failure, self.result, self.options.seed, memory, self.deadline)

    def _followed(self) -> OwnDerivatives | None:
        """What wrong gradients follow from."""
        known, name = self.told.follows, self.group.mechanism.name
        if name not in known and isinstance(self.bench.subject, GradientSubject):
            found = ends_alike(self.bench, self.failure) or own_derivatives(self.bench, self._observed())
            known.update({} if found is None else {name: found})
        return known.get(name)

    def _retraced(self) -> Retraced | None:
        return retraced(self.bench, self.failure, self.result, self.deadline)

    def _observed(self) -> list[Observation]:
        return observed(self.bench, self.failure, self.options.seed)

    def _named(self, calls: Sequence[Observation]) -> Likeness | Nearest | None:
        """What the subject behaves like, which is sought once for the same failure if nothing is found."""
        times = self._times * (AGAIN if _unnamed(self.group, self.head) in self.told.shown else 1.0)
        before = self.told.sought.before(self.bench, self.failure, calls, times)
        if before is not None:
            return before.nearest
        seed, likely = self.options.seed, self.told.shown
        found = diagnose(self.bench, self.failure, seed, observations=calls, times=times, likely=likely)
        self.told.sought.keep(self.bench, self.failure, calls, times, found)
        return found

    def _mapped(self) -> Map | None:
        return mapped(self.bench, self.failure, self.options.seed)

    def _when(self, calls: Sequence[Observation], left: float) -> When | None:
        """The condition under which a subject is wrong; precision and what earlier calls do are another matter."""
        if self._of_precision or self.failure.dependent:
            return None
        return separated(
            self.bench,
            self.failure,
            self.result,
            self.options.seed,
            observations=calls,
            deadline=self.deadline,
            times=self._times,
            left=left,
            likeness=self.likeness,
        )

    @property
    def _times(self) -> float:
        """How many times as long as usual an explanation may take."""
        return self.options.explain_time / float(OPTIONS["explain_time"].default)


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
