"""The verdict on a production-size case, as strict as on a small one, without storing its scores.

The subject is called once, and keeps what it gives. Rows of its outputs are compared with the definition, without
bounds, a stretch at a time: this chooses the rows that differ most, beside those at the edges of tiles and some others.
The rows that were chosen are judged exactly, with all bounds, and the verdict rests on them alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..cases.large import LargeSample
from ..execution.calling import Call
from ..execution.faults import Fault
from ..execution.large import Held
from ..execution.processes import LostError
from ..numerics import budget
from ..numerics.drawn import Drawn
from ..numerics.grades import Grade
from ..numerics.workspace import memory_kept
from ..subjects.large import LargeSubject, large_subject
from .bench import Bench
from .beyond import reads_beyond
from .judge import Kind, WorstEntry
from .portions import Item, Portions
from .rows import Verdict, exactly
from .screening import Screened, chosen, screened
from .settling import Declined, Settled, claimed

ONCE_MORE = "the same call once more, with new memory full of NaN"
"""What is said of another verdict on a call that is made again."""


class Unroomy(Exception):  # noqa: N818 - an answer
    """A case needs more memory than there may be."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a case."""

    excess: float = 0.0
    """The largest error in units of the bound."""
    says: str = ""
    fault: Fault | None = None
    rows: int = 0
    seen: int = 0
    """Rows that were compared with the definition, of all `rows`."""
    judged: int = 0
    """Rows that were judged."""
    beyond: str = ""
    """What was read or written beyond an array."""
    worst: WorstEntry | None = None
    """The entry that is furthest beyond its bound."""
    wrong: NDArray[np.bool_] | None = None
    """Which rows of the first output differ by more than any bound of those that were judged."""
    labels: tuple[str, ...] = ()
    """The sizes of the axes of `wrong`."""
    unsteady: str = ""
    """How often which entries were others beside other threads."""
    turns: int = 0
    """How often the call was made beside other threads."""
    again: bool = False
    """Whether the call was made once more, with new memory full of NaN."""
    unlike: str = ""
    """Which outputs had other bits then."""

    @property
    def refuted(self) -> bool:
        return self.excess > 1

    @property
    def kind(self) -> Kind:
        """How the case fared."""
        if self.fault is not None:
            return Kind.FAULTED
        return Kind.REFUTED if self.refuted or self.beyond else Kind.HELD


class Large:
    """A large case against a subject."""

    def __init__(self, bench: Bench, sample: LargeSample, *, memory: int, seconds: float, turns: int = 0) -> None:
        """`memory` bounds what either process takes, in bytes; after `seconds`, rows are left out of the comparison.

        With `turns`, the call is made so often beside other threads, and what differs most from the call by itself is
        judged.
        `SpecError` where the definition cannot be evaluated for a part of the case.
        """
        self.bench, self.sample, self.memory, self.seconds, self.turns = bench, sample, memory, seconds, turns
        self.portions = Portions(bench, sample)

    def needs(self) -> int:
        """About how many bytes the larger of both processes takes."""
        width = {"float64": 8, "float32": 4}.get(self.bench.dtype, 2)
        inputs = [x.size for x in self.sample.values.values() if isinstance(x, (Drawn, np.ndarray))]
        first = next(iter(self.portions.shapes.values()))
        there = (width * sum(inputs) + 4 * max(inputs, default=0)) + 2 * width * math.prod(first)
        return max(there, 12 * 8 * self.portions.largest)

    def judged(self, grades: Sequence[Grade]) -> Judged:
        """The verdict at the first of the grades, which is the one that is claimed."""
        if self.needs() > self.memory:
            told = ", ".join(f"{name} = {n}" for name, n in self.portions.sizes.items())
            needs, given = (n / (1 << 30) for n in (self.needs(), self.memory))
            raise Unroomy(f"a case with {told} takes about {needs:.2g} GB, and --memory is {given:.4g} GB")
        self.portions.room = (self.memory - self.needs()) // 2
        subject = large_subject(self.bench.subject, self.memory)
        if subject is None:
            raise Declined("it is called in this process, and keeps no outputs")
        try:
            with memory_kept():
                return self._judged(subject, grades)
        except LostError as lost:
            return Judged(math.inf, lost.fault.says, lost.fault, turns=self.turns)
        finally:
            subject.release()

    def _judged(self, subject: LargeSubject, grades: Sequence[Grade]) -> Judged:
        portions = self.portions
        call = claimed(self.bench, self.sample, Settled(self.sample.handed))
        held = subject.hold(call, portions.shapes, turns=self.turns, apart=self.sample.apart)
        if held.unroomy:
            raise Unroomy(held.unroomy)
        if held.fault is not None:
            if held.fault.kind == "unsupported":
                raise Declined(held.fault.says)
            return Judged(math.inf, held.fault.says, held.fault, turns=self.turns)
        found = self._compared(subject, held, call, grades)
        if held.unlike and found.kind is Kind.HELD:
            subject.second = True
            second = self._compared(subject, replace(held, beyond=""), call, grades)
            found = second if second.kind is not Kind.HELD else found
            steady = self.bench.subject.claims.deterministic
            if steady and second.kind is Kind.HELD:
                found = replace(found, excess=math.inf, says=f"other bits of {held.unlike}")
            found = replace(found, says=f"{ONCE_MORE}: {found.says}") if found.refuted else found
        return replace(found, again=held.again, unlike=held.unlike)

    def _compared(self, subject: LargeSubject, held: Held, call: Call, grades: Sequence[Grade]) -> Judged:
        """The verdict on what a call gave, or on what it gave once more."""
        portions = self.portions
        names = [name for name in portions.determined if name in held.shapes]
        with np.errstate(all="ignore"), budget.roomy(self.memory):
            portions.orient()
            items = [*portions.items()]
            seen = screened(portions, subject, items, names, self.seconds)
            rows = chosen(portions, seen, len(items))
            measures = seen.gaps, seen.shares
            further = [*self._extremes(subject, items, names, seen)]
            items = [portions.narrowed(each, *measures) if at in rows else each for at, each in enumerate(items)]
            for item, row in further:
                rows[len(items)] = [row]
                items.append(item)
            found = exactly(portions, subject, items, rows, names, grades[0])
            beyond, lost = held.beyond, partial(self._lost, subject, items, rows, names)
            if not beyond and not subject.second and lost():
                beyond = reads_beyond(subject, call, portions.shapes, lost, self.sample.apart)
            looser = None
            if found.excess > 1 and 2 * found.wrong > found.rows and not beyond:
                looser = next(
                    (g for g in grades[1:] if exactly(portions, subject, items, rows, names, g).excess <= 1), None
                )
        told = _told(found, seen, grades[0], looser)
        return replace(
            told,
            says=beyond or told.says,
            rows=seen.gaps.size,
            beyond=beyond,
            unsteady=held.unsteady,
            turns=self.turns,
            labels=portions.labels[:-1],
        )

    def _extremes(
        self, subject: LargeSubject, items: Sequence[Item], names: Sequence[str], seen: Screened
    ) -> Iterator[tuple[Item, int]]:
        """The rows with the least and the greatest entry of an output, where not all rows were compared.

        What is no number is either, and what is outside the least and the greatest value of an average is one of them.
        """
        if seen.seen == seen.gaps.size:
            return
        for name in names:
            for place in subject.extremes(name):
                found = self.portions.around(items, name, place)
                if found is not None:
                    yield found

    def _lost(
        self, subject: LargeSubject, items: Sequence[Item], rows: Mapping[int, Sequence[int]], names: Sequence[str]
    ) -> bool:
        """Whether an entry of some rows is no number; the definition of a large case has none that is not."""
        each = ((items[number], np.asarray(own), name) for number, own in rows.items() for name in names)
        return any(bool(np.isnan(self.portions.observed(subject, *one)).any()) for one in each)


def _told(found: Verdict, seen: Screened, claim: Grade, looser: Grade | None) -> Judged:
    """What is told of a verdict."""
    plain = Judged(found.excess, seen=seen.seen, judged=found.rows)
    if found.worst is None or found.excess <= 1:
        return plain
    worst = replace(found.worst, spoiled=found.spoiled, entries=found.entries)
    says = f"{worst.output}{list(worst.where)} is {worst.found:.6g}, expected {worst.expected:.6g}"
    says = f"{says}, and {found.wrong} of {found.rows} rows that were judged are wrong"
    says = f"behaves as {looser}, claims {claim}: {says}" if looser is not None else says
    return replace(plain, says=says, worst=worst, wrong=seen.gaps > found.widest)
