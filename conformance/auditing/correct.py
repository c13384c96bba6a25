"""Correct but unusual implementations: none may fail, and their bounds must not be too wide to decide."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ..cases.drawing import unkept
from ..cases.profiles import Profile
from ..judging.cells import Cell, Request
from ..judging.engine import run
from ..mechanisms.library import Library
from ..mechanisms.loader import NONE, Specs
from ..numerics.formats import FORMATS
from ..subjects import registered
from ..subjects.targets import subject
from .parts import Part

CONTROLS = Profile("controls", covering=12, draws=16, admitted=3)
DEEP = 2000
"""Drawn cases of each correct variant in a deep audit."""


def controls(known: Library, mechanisms: Collection[str]) -> dict[str, list[str]]:
    """The correct variants that have something to do with the mechanisms, by operator."""
    operators = {known.operator_of(name) for name in mechanisms}
    found: dict[str, list[str]] = {}
    for name, adapter in registered.variants().items():
        if adapter.operator in operators:
            found.setdefault(adapter.operator, []).append(name)
    return found


def draws_of(mechanisms: int, *, deep: bool) -> int:
    """The drawn cases of a correct variant on each of so many mechanisms."""
    return -(-DEEP // max(mechanisms, 1)) if deep else CONTROLS.draws


@dataclass(slots=True)
class Tried:
    """How correct variants have fared on one mechanism."""

    cases: Counter[str]
    """The cases of each."""
    accused: dict[str, list[str]]
    """Of what each was accused."""
    bounds: Bounds


def tried(names: Sequence[str], mechanism: str, draws: int, specs: Specs = NONE) -> Tried:
    """Correct variants on one mechanism, in all their dtypes; those that share cases and bounds run in a row."""
    known, every = specs.library(), registered.variants()
    found = {name: subject(every[name], known=known) for name in names}
    own, profile = Tried(Counter(), {name: [] for name in names}, Bounds()), replace(CONTROLS, draws=draws)
    for dtype in FORMATS:
        with warnings.catch_warnings(), unkept():
            warnings.simplefilter("ignore")
            for one in (found[name] for name in names if dtype in found[name].claims.dtypes):
                result = run(Request(one, known[mechanism], dtype, profile))
                own.cases[one.name] += result.cases
                for cell in result.cells:
                    if cell.bad and cell.level == "must":
                        says = f"{cell.says} ({cell.worst:.3g} x the bound)" if cell.worst else cell.says
                        own.accused[one.name].append(f"accused of {cell.address} in {dtype}: {says}")
                    own.bounds.take(cell)
    return own


def told(operator: str, names: Sequence[str], found: Sequence[Tried]) -> list[Part]:
    """What correct variants of an operator have shown on its mechanisms, and what their bounds have."""
    parts, bounds = [], Bounds()
    for name in names:
        accused = [fault for each in found for fault in each.accused[name]]
        cases = sum(each.cases[name] for each in found)
        parts.append(Part(name, faults=accused, notes=[f"correct variant, {cases} cases"]))
    for each in found:
        bounds.add(each.bounds)
    return [*parts, *bounds.part(operator)]


class Bounds:
    """On how many cases of correct variants the bounds of each law could tell anything, dtype by dtype."""

    def __init__(self) -> None:
        self.telling, self.vacuous = Counter[tuple[str, str]](), Counter[tuple[str, str]]()

    def add(self, other: Bounds) -> None:
        """Take in what was found elsewhere."""
        for own, found in ((self.telling, other.telling), (self.vacuous, other.vacuous)):
            for key, count in found.items():
                own[key] += count

    def take(self, cell: Cell) -> None:
        self.telling[cell.address, cell.dtype] += cell.cases
        self.vacuous[cell.address, cell.dtype] += cell.vacuous

    def part(self, operator: str) -> Iterator[Part]:
        """What is to be said of the bounds; it is a fault where they mostly say nothing in the finest dtype."""
        part, coarse = Part(f"bounds of {operator}"), dict[str, list[str]]()
        finest: dict[str, str] = {}
        for address, dtype in self.telling:  # the finest dtype comes first
            finest.setdefault(address, dtype)
        for (address, dtype), count in self.vacuous.items():
            if count <= self.telling[address, dtype]:
                continue
            if dtype == finest[address]:
                share = f"{count} of {count + self.telling[address, dtype]}"
                part.faults.append(f"those of {address} say nothing in {dtype} on {share} cases")
            else:
                coarse.setdefault(dtype, []).append(address)
        part.notes += [f"mostly too wide in {dtype} for {', '.join(names)}" for dtype, names in coarse.items()]
        if part.notes or part.faults:
            yield part
