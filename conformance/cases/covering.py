"""A covering array: a few cases that contain every pair of settings, of the sizes that are drawn and of larger ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..mechanisms.amounts import levels_of, pairs_of, scattered
from ..mechanisms.mechanism import DRAWN_LAYOUTS, Mechanism, Setting
from ..numerics.streams import pick
from ..subjects.claims import Claims
from .applicability import applicable, pins
from .drawing import drawn, seed_of
from .samples import Case, Sample


@dataclass(frozen=True, slots=True)
class Factor:
    """Something that a covering array varies: a draw of one number, the regime, or the layout."""

    key: str
    levels: tuple[Any, ...]


CROSSED_LAYOUTS = ("contiguous", "sliced")
"""The memory layouts of crossed sizes: rows of their own, and parts of longer rows."""


def factors(mechanism: Mechanism, claims: Claims) -> list[Factor]:
    """What there is to vary, the most significant first."""
    pinned = pins(mechanism, claims)
    found = []
    for name, expression in {**mechanism.sizes, **mechanism.options, **mechanism.inputs}.items():
        if name in pinned:
            continue
        for site in expression.draws:
            if site.name in ("between", "choice", "maybe"):
                found.append(Factor(f"{name}.{site.ordinal}", levels_of(site)))
    regimes = [name for name, regime in mechanism.regimes.items() if applicable(regime.assigned, pinned)]
    found.append(Factor("regime", ("", *regimes)))
    if mechanism.required:
        found.append(Factor("layout", DRAWN_LAYOUTS))
    return found


def covering(factors: Sequence[Factor]) -> Iterator[dict[str, Any]]:
    """Rows of levels that cover every pair of levels of two factors, greedily, the richest rows first."""
    pairs = pairs_of([len(factor.levels) for factor in factors])
    turn = 0
    for i, a, j, b in sorted(pairs, key=lambda pair: scattered(*pair)):
        if (i, a, j, b) not in pairs:
            continue
        row = {i: a, j: b}
        for k, factor in enumerate(factors):
            if k not in row:
                row[k] = max(
                    range(len(factor.levels)),
                    key=lambda level: (
                        sum(_pair(k, level, *item) in pairs for item in row.items()),
                        -scattered(turn, k, level),
                    ),
                )
        pairs -= {_pair(k, level, *other) for k, level in row.items() for other in row.items()}
        turn += 1
        yield {factor.key: factor.levels[row[k]] for k, factor in enumerate(factors)}


def _pair(i: int, a: int, j: int, b: int) -> tuple[int, int, int, int]:
    return (i, a, j, b) if i < j else (j, b, i, a)


def covered(mechanism: Mechanism, claims: Claims, seed: int, dtype: str) -> Iterator[Sample]:
    """The samples of the covering array."""
    return _samples(mechanism, claims, seed, dtype, covering(factors(mechanism, claims)), "pair")


def crossed(mechanism: Mechanism, claims: Claims, seed: int, dtype: str) -> Iterator[Sample]:
    """The samples of crossed sizes: each option at its default or at one other choice, every two together."""
    for setting in mechanism.crossed.values():
        rows = covering(_halved(mechanism, claims, setting))
        yield from _samples(mechanism, claims, seed, dtype, rows, setting.name, scenario=setting.name)


def _halved(mechanism: Mechanism, claims: Claims, setting: Setting) -> list[Factor]:
    """What there is to vary in crossed sizes, each thing in two ways, the default first."""
    pinned, found = pins(mechanism, claims), [Factor("layout", CROSSED_LAYOUTS)] if mechanism.required else []
    for name, expression in {**mechanism.options, **mechanism.inputs, **mechanism.sizes}.items():
        own = setting.assigned.get(name)
        for site in () if name in pinned else (own or expression).draws:
            if site.name in ("between", "choice", "maybe") and (count := len(levels_of(site))) > 1:
                key = f"{name}.{site.ordinal}{'@scenario' if own else ''}"
                other = 1 + scattered(mechanism.name, key) % (count - 1)
                found.append(Factor(key, (levels_of(site)[0], levels_of(site)[other])))
    return found


def _samples(
    mechanism: Mechanism,
    claims: Claims,
    seed: int,
    dtype: str,
    rows: Iterable[Mapping[str, Any]],
    name: str,
    *,
    scenario: str = "",
) -> Iterator[Sample]:
    """The samples of rows, numbered behind a name, without those outside the domain or the claims."""
    pinned = pins(mechanism, claims)
    for number, row in enumerate(rows, 1):
        label = f"{name} {number}"
        case = Case(
            mechanism.name,
            label,
            seed_of(seed, mechanism.name, label),
            pinned,
            scenario=scenario,
            regime=row.get("regime", ""),
            layout=row.get("layout", "contiguous"),
        )

        def picker(key: str, count: int, row: Mapping[str, Any] = row, case: Case = case) -> int:
            return row[key] if key in row else pick(count, case.seed, key)

        sample = drawn(mechanism, case, claims, dtype, picker)
        if sample is not None:
            yield sample
