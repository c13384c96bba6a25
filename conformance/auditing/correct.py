"""Correct but unusual implementations: none may fail, and their bounds must not be too wide to decide."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from attnspec import adapters

from ..cases.drawing import kept_together
from ..cases.profiles import Profile
from ..judging.cells import Cell, Request
from ..judging.engine import run
from ..mechanisms.library import Library
from ..mechanisms.loader import NONE, Specs
from ..numerics.formats import FORMATS
from ..subjects.targets import families, subject
from .parts import Part

CONTROLS = Profile("controls", covering=12, draws=16, admitted=3)
DEEP = 2000
"""Drawn cases of each correct variant in a deep audit."""


def controls(known: Library, mechanisms: Collection[str]) -> dict[str, list[str]]:
    """The correct variants that have something to do with the mechanisms, by operator."""
    modules, operators = families("controls"), {known.operator_of(name) for name in mechanisms}
    found: dict[str, list[str]] = {}
    for adapter in adapters.registered():
        if adapter.module in modules and adapter.operator in operators:
            found.setdefault(adapter.operator, []).append(adapter.name)
    return found


def audited_controls(
    names: Sequence[str], mechanisms: Collection[str], specs: Specs = NONE, *, deep: bool
) -> list[Part]:
    """Several correct variants of one operator, in all their dtypes; those that share cases and bounds run in a row."""
    modules = families("controls")
    known = specs.library()
    found = {a.name: subject(a, known=known) for a in adapters.registered() if a.name in names and a.module in modules}
    subjects = [found[name] for name in names]
    own = [m for m in known.of(subjects[0].operator) if m.name in mechanisms]
    profile = replace(CONTROLS, name="deep", draws=-(-DEEP // max(len(own), 1))) if deep else CONTROLS
    parts, cases, bounds = {name: Part(name) for name in names}, Counter[str](), Bounds()
    for mechanism, dtype in itertools.product(own, FORMATS):
        with warnings.catch_warnings(), kept_together(mechanism):
            warnings.simplefilter("ignore")
            for one in (one for one in subjects if dtype in one.claims.dtypes):
                result = run(Request(one, mechanism, dtype, profile))
                cases[one.name] += result.cases
                for cell in result.cells:
                    if cell.bad and cell.level == "must":
                        says = f"{cell.says} ({cell.worst:.3g} x the bound)" if cell.worst else cell.says
                        parts[one.name].faults.append(f"accused of {cell.address} in {dtype}: {says}")
                    bounds.take(cell)
    for name, part in parts.items():
        part.notes.append(f"correct variant, {cases[name]} cases")
    return [*parts.values(), *bounds.part(subjects[0].operator)]


class Bounds:
    """On how many cases of correct variants the bounds of each law could tell anything, dtype by dtype."""

    def __init__(self) -> None:
        self.telling, self.vacuous = Counter[tuple[str, str]](), Counter[tuple[str, str]]()

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
