"""The cases on which something happens, in words: options and comparisons of sizes.

A condition counts if it holds on every case on which it happens and on the smallest such case, and not on all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cases.samples import Sample
from .settling import same

MOST = 3
"""Conditions that are named."""
ENOUGH = 3
"""Cases up to which sizes may well be equal by chance."""


@dataclass(frozen=True, slots=True)
class Range:
    """Where something happens: conditions, all of which hold there; on how many cases, of how many that meet them."""

    conditions: tuple[str, ...]
    cases: int
    such: int

    def __str__(self) -> str:
        """Nothing where no condition tells."""
        return " and ".join(self.conditions)


def range_of(happens: Sequence[Sample], others: Sequence[Sample], smallest: Sample | None = None) -> Range:
    """Where something happens that does not happen on the `others`."""
    there = [conditions(sample) for sample in happens]
    elsewhere = [conditions(sample) for sample in others]
    seen = [*there, *([conditions(smallest)] if smallest else [])]
    common = [
        name for name in seen[-1] if all(name in each for each in there) and (" = " not in name or there[ENOUGH:])
    ]
    telling = [name for name in common if any(name not in each for each in elsewhere)]
    chosen: list[str] = []
    left = elsewhere
    while len(chosen) < MOST and telling:  # the one that leaves fewest others out of account comes first
        best = min(telling, key=lambda name: (sum(name in each for each in left), telling.index(name)))
        remaining = [each for each in left if best in each]
        if len(remaining) == len(left):
            break
        chosen.append(best)
        telling.remove(best)
        left = remaining
    named = tuple(sorted(chosen, key=common.index))
    return Range(named, len(happens), len(happens) + len(left))


def conditions(sample: Sample) -> list[str]:
    """What holds of a case, in words: first of its options and inputs, then of its sizes and entries."""
    m, values = sample.mechanism, sample.values
    found = []
    for name in (*m.options, *m.optional):
        x = values[name]
        if name in m.defaults and not same(x, m.defaults[name]):
            found.append(name if x is True else f"{name} = {x}" if isinstance(x, bool | str) else f"{name} given")
    sizes = {name: values[name] for name in m.sizes if isinstance(values.get(name), int)}
    for one, other in itertools.combinations(sizes, 2):
        if one.rpartition("_")[2] == other.rpartition("_")[2]:
            sign = "<" if sizes[one] < sizes[other] else ">" if sizes[one] > sizes[other] else "="
            found += [f"{one} {sign} {other}"] + [f"{one} != {other}"] * (sign != "=")
    found += [f"{name} = 1" for name, n in sizes.items() if n == 1]
    arrays = [values[name] for name in m.required if isinstance(values[name], np.ndarray)]
    if any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in arrays):
        found.append("inputs that are not finite")
    if sample.layout != "contiguous":
        found.append(f"inputs laid out {sample.layout}")
    return found
