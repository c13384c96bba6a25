"""Limits on the number of cases of a specification, checked when it is read."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import Place, SpecError
from ..language.scopes import DrawSite
from .mechanism import Mechanism, Setting
from .schema import Document, place_of

CASES = 1000
"""Cases of one scenario; the most that a shipped one has is 128."""
JUDGED = 20_000
"""Cases of all scenarios times laws; the most that a shipped file has is 2,688."""
PAIRS = 50_000
"""Pairs of levels of two draws that the covering array looks at; the most that a shipped file has is 2,913."""
FEW = 12
"""Choices of a draw that the covering array tries all of; of more it tries the first two and the last."""


def levels_of(site: DrawSite) -> tuple[int, ...]:
    """The choices of a draw of one number that the covering array tries."""
    return tuple(range(site.count)) if site.count and site.count <= FEW else (0, -1, 1)


def pairs_of(levels: Sequence[int]) -> set[tuple[int, int, int, int]]:
    """Every pair of levels of two factors, of which there are so many levels each: a factor, its level, and another."""
    return {
        (i, a, j, b)
        for (i, m), (j, n) in itertools.combinations(enumerate(levels), 2)
        for a in range(m)
        for b in range(n)
    }


def scattered(*key: Any) -> int:
    """A fixed but patternless order."""
    return zlib.crc32(repr(key).encode())


def cases_of(setting: Setting) -> int:
    """How many cases a scenario represents: one for each choice of its draws by `every`."""
    every = (site for expression in setting.assigned.values() for site in expression.draws if site.name == "every")
    return math.prod(site.count or 1 for site in every)


def excesses(mechanism: Mechanism, document: Document) -> Iterator[SpecError]:
    """Where a specification asks for too many cases."""
    total = len(mechanism.examples)
    for scenario in mechanism.scenarios.values():
        cases = cases_of(scenario)
        total += min(cases, CASES)
        if cases > CASES:
            told = f"it represents more than {CASES:,} cases, one for each choice of every `every`; use fewer choices"
            yield SpecError(f"scenarios.{scenario.name}: {told}", scenario.place)
    laws = len(mechanism.laws) + len(mechanism.rejects) + 1
    if total * laws > JUDGED:
        told = f"{total:,} cases times {laws} laws are more than {JUDGED:,}; leave some of them out"
        yield SpecError(f"scenarios: {told}", _place(document, "scenarios"))
    pairs = _pairs(mechanism)
    if pairs > PAIRS:
        told = f"the draws of sizes, inputs and options have {pairs:,} pairs of choices, more than {PAIRS:,}"
        yield SpecError(f"{told}; draw fewer of them", _place(document, "sizes") or _place(document, "mechanism"))


def _pairs(mechanism: Mechanism) -> int:
    """The pairs of levels of any two draws of one number, the regime and the layout left out."""
    drawn = (*mechanism.sizes.values(), *mechanism.inputs.values(), *mechanism.options.values())
    sites = [site for x in drawn for site in x.draws if site.name in ("between", "choice", "maybe")]
    levels = [len(levels_of(site)) for site in sites]
    return (sum(levels) ** 2 - sum(n * n for n in levels)) // 2


def _place(document: Document, key: str) -> Place | None:
    return next((place_of(name) for name in document if name == key), None)
