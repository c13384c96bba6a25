"""Cases on either side of a condition: near a given case, with a literal true or false."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..cases.samples import Case, Sample, Unfit
from ..errors import SpecError
from ..mechanisms.definition import sizes_of
from ..subjects.claims import Claims
from .conditions import Condition, Literal
from .facts import facts_of

EXPLAINED_ENTRIES = 20_000
"""Entries beyond which a case is too large to be called again and again for an explanation."""
VALUES = 16
"""Values of an option that are tried, the first ones: a seed has many."""
TOGETHER = ("given", "absent", "set", "usual")
"""The kinds of literals about what may have to go with an option or an optional input."""
NUMBERS = ("equal", "below", "at most", "at least")
"""The kinds of literals about the number that an option is."""
SEEDS = 6
"""Seeds with which rows of integers are drawn again."""


def steered(sample: Sample, claims: Claims, literal: Literal, *, holds: bool) -> Sample | None:
    """The case as near as possible on which a literal holds, or does not; None where there is none."""
    if literal.holds(facts_of(sample)) is holds:
        return sample
    return next(_all_steered(sample, claims, literal, holds=holds), None)


def _all_steered(sample: Sample, claims: Claims, literal: Literal, *, holds: bool) -> Iterator[Sample]:
    """The cases near a case on which a literal holds, or does not, the nearest first."""
    if literal.kind not in ("layout", "regime") and literal.name not in sample.values:  # kin may do without it
        return
    moved, none = [*_moved(sample, literal, holds=holds)], True
    for found in _standing(sample, claims, literal, moved, holds=holds):
        none = False
        yield found
    if none:
        together = (other for case in moved for other in _together(sample, case, claims, literal))
        yield from _standing(sample, claims, literal, together, holds=holds)


def _standing(
    sample: Sample, claims: Claims, literal: Literal, cases: Iterable[Case], *, holds: bool
) -> Iterator[Sample]:
    """Those of some cases that can be and on which a literal holds, or does not."""
    for case in cases:
        found = drawn(sample, case, claims)
        if found is not None and literal.holds(facts_of(found)) is holds:
            yield found


def _together(sample: Sample, case: Case, claims: Claims, literal: Literal) -> Iterator[Case]:
    """A moved case with other values of each option that the input or option of a literal has to go with.

    An optional input that it has to go with is given, or left out.
    """
    m = sample.mechanism
    bound = set().union(*(line.uses for line in m.requires.values() if literal.name in line.uses)) - {literal.name}
    free = [name for name in m.options if (name in claims.names or name not in m.defaults) and name not in claims.fixed]
    for name in free if literal.kind in TOGETHER else ():
        if name in bound:
            yield from (replace(one, literals={}, scenario="") for one in _values(sample, name, case))
    for name in m.optional if literal.kind in TOGETHER else ():
        if name in bound and name in claims.names:
            yield from (_given(sample, name, case), _left_out(sample, name, case))


def otherwise(sample: Sample, claims: Claims, literal: Literal) -> Iterator[Sample]:
    """Of a literal about an option, the cases on which it does not hold, with each of the values that are drawn."""
    if literal.kind in ("usual", "set", *NUMBERS) and literal.holds(facts_of(sample)):
        yield from _all_steered(sample, claims, literal, holds=False)


def beyond(sample: Sample, claims: Claims, literal: Literal) -> Sample | None:
    """The case as near as possible on which a literal does not hold: of its mechanism, or else of its operator."""
    found = steered(sample, claims, literal, holds=False)
    if found is not None or sample.mechanism is sample.mechanism.stating:
        return found
    m = sample.mechanism.stating
    known = [name for name in (*m.sizes, *m.options) if name in sample.values]
    names = [name for name in known if not isinstance(sample.values[name], np.ndarray)]
    fixed = {**{name: sample.values[name] for name in names}, **{name: m.defaults[name] for name in m.optional}}
    case = Case(m.name, sample.case.label, sample.case.seed, fixed)
    try:
        return steered(Sample(m, case, sample.dtype, claims=claims), claims, literal, holds=False)
    except (Unfit, SpecError):
        return None


def freed(sample: Sample, claims: Claims) -> Sample | None:
    """The case without what its scenario writes out, as rows of integers that may be bound to a size."""
    return drawn(sample, replace(sample.case, scenario=""), claims) if sample.case.scenario else None


def imposed(sample: Sample, claims: Claims, condition: Condition) -> Sample | None:
    """The case moved to where a condition holds; None where that cannot be."""
    found: Sample | None = sample
    for literal in condition.literals:
        found = steered(found, claims, literal, holds=True) if found is not None else None
    return found if found is not None and condition.holds(facts_of(found)) else None


def sized(sample: Sample, claims: Claims, name: str, n: int, alike: Collection[str] = ()) -> Sample | None:
    """The case with another size, which sizes that are to be `alike` have as well."""
    case = _with(sample, name, n)
    found = drawn(sample, replace(case, fixed={**case.fixed, **dict.fromkeys(alike, n)}), claims)
    return found if found is not None and found.values.get(name) == n else None


def roomy(sample: Sample, claims: Claims) -> Sample:
    """The case with three of everything of which it has two, if that can be: so a pattern has one wording."""
    fixed = {name: 3 if name in sample.mechanism.sizes and x == 2 else x for name, x in sample.case.fixed.items()}
    return drawn(sample, replace(sample.case, fixed=fixed, literals={}), claims) or sample


def neighbours(sample: Sample, claims: Claims) -> Iterator[Sample]:
    """Cases in which one thing is other than in the given one: an option, an optional input, a size."""
    m = sample.mechanism
    for name in (*m.optional, *m.options):
        found = turned(sample, claims, name)
        if found is not None:
            yield found
    for name in m.sizes:
        n = sample.values.get(name)
        if isinstance(n, int | np.integer):
            for other in (1, int(n) + 1, 2 * int(n) + 1):
                found = sized(sample, claims, name, other) if other != n else None
                if found is not None:
                    yield found


def otherwise_called(sample: Sample, claims: Claims) -> Iterator[Sample]:
    """Cases in which one optional input is given or left out, or one option has another of its values, in turn."""
    m = sample.mechanism
    inputs = [[x] for x in (turned(sample, claims, name) for name in m.optional) if x is not None]
    options = [[*_values(sample, name)][-2::-1] for name in m.options if name in claims.names and name in m.defaults]
    values = [[drawn(sample, case, claims) for case in cases] for cases in options]
    for turn in itertools.zip_longest(*inputs, *values):
        yield from (one for one in turn if one is not None and one.key != sample.key)


def enlarged(sample: Sample, claims: Claims) -> Iterator[Sample]:
    """Cases in which one size is one larger."""
    for name in sample.mechanism.sizes:
        n = sample.values.get(name)
        found = sized(sample, claims, name, int(n) + 1) if isinstance(n, int | np.integer) else None
        if found is not None:
            yield found


def turned(sample: Sample, claims: Claims, name: str) -> Sample | None:
    """The case with an option or an optional input if it is without, or without it; None where it cannot be so."""
    m, facts = sample.mechanism, facts_of(sample)
    if name not in claims.names or name not in m.defaults:
        return None
    kinds = ("given", "absent") if name in m.optional else ("set", "usual")
    unusual = facts.given[name] if name in m.optional else facts.options.get(name) is not None
    return steered(sample, claims, Literal(kinds[unusual], name), holds=True)


def redrawn(sample: Sample, claims: Claims, count: int) -> Iterator[Sample]:
    """The case with other entries, so many times."""
    for step in range(1, count + 1):
        found = drawn(sample, replace(sample.case, seed=sample.case.seed + step, literals={}), claims)
        if found is not None:
            yield found


def drawn(sample: Sample, case: Case, claims: Claims) -> Sample | None:
    """A case of the mechanism of a sample; None where it is none, or too large."""
    try:
        found = sample.another(case, claims)
    except (Unfit, SpecError):
        return None
    return found if found.entries <= EXPLAINED_ENTRIES else None


def as_case(sample: Sample, values: Mapping[str, Any], claims: Claims) -> Sample | None:
    """The case of a call with other values than those of the sample, its arrays written out."""
    m = sample.mechanism
    names = {*m.options, *(name for name in m.inputs if not isinstance(values[name], np.ndarray))}
    sizes = {name: n for name, n in sizes_of(m, values).items() if name in m.sizes}
    fixed = {**sample.case.fixed, **sizes, **{name: values[name] for name in names}}
    arrays = {name: values[name] for name in m.inputs if isinstance(values[name], np.ndarray)}
    arrays |= {name: fixed.pop(name) for name in m.options if isinstance(values[name], np.ndarray)}
    return drawn(sample, replace(sample.case, fixed=fixed, literals=arrays, scenario="", regime=""), claims)


def _with(sample: Sample, name: str, x: Any) -> Case:
    """The case with another size or option; arrays that were written out may no longer fit, and are drawn again."""
    return replace(sample.case, fixed={**sample.case.fixed, name: x}, literals={})


def _moved(sample: Sample, literal: Literal, *, holds: bool) -> Iterator[Case]:
    kind, name, x = literal.kind, literal.name, literal.value
    values, case, m = sample.values, sample.case, sample.mechanism
    if kind in ("from", "up to"):
        yield from _bounded(sample, literal, holds=holds)
    elif kind == "not":
        yield from (_with(sample, name, x + step) for step in ((1, -1) if holds else (0,)))
    elif kind == "remainder":
        for step in range(1, x[0] + 1):
            yield _with(sample, name, values[name] + step)
    elif kind in ("power", "unpowered", "less", "same", "other"):
        yield from (_multiplied if "power" in kind else _related)(sample, literal, holds=holds)
        yield from (_with(sample, size, n) for size in m.sizes for n in (1, 2))  # as of groups, by which heads follow
    elif kind in ("given", "absent"):
        yield _given(sample, name) if (kind == "given") is holds else _left_out(sample, name)
    elif kind in NUMBERS and holds:
        yield _with(sample, name, -1 if kind == "below" else x)
    elif kind == ("set" if holds else "usual") or kind in NUMBERS:
        if kind == "at least":
            yield _with(sample, name, x - 1)
        yield from _values(sample, name)
        yield _with(sample, name, m.defaults.get(name))
    elif kind in ("set", "usual"):
        yield _with(sample, name, m.defaults.get(name))
    elif kind in ("scattered", "memory", "layout"):
        wanted = x or "transposed"
        layouts = (wanted, "strided", "mixed", "lone") if holds else ("contiguous",)
        yield from (replace(case, layout=layout, scenario="") for layout in layouts)
    else:
        yield from _redrawn(sample, literal, holds=holds)


def _bounded(sample: Sample, literal: Literal, *, holds: bool) -> Iterator[Case]:
    """Cases on one side of a threshold, for the size next to it may be none that can be."""
    name, x, case = literal.name, literal.value, sample.case
    below = literal.kind == "from"
    for n in (x,) if holds else [n for n in dict.fromkeys((x - 1, x - 2, 1) if below else (x + 1, x + 2)) if n > 0]:
        yield _with(sample, name, n)
        alike = {
            size: n for size in sample.mechanism.stating.sizes if size.rpartition("_")[2] == name.rpartition("_")[2]
        }
        yield replace(case, fixed={**case.fixed, **alike}, literals={})  # as heads are bound to heads of keys


def _redrawn(sample: Sample, literal: Literal, *, holds: bool) -> Iterator[Case]:
    """Cases whose arrays are drawn otherwise: of another regime, of another shape, or with other entries."""
    case = replace(sample.case, scenario="")
    if literal.kind == "regime":
        yield replace(case, regime=literal.value if holds else "")
    elif literal.kind in ("shared", "apart"):
        sizes = (sample.values[literal.value], 2) if literal.value in sample.mechanism.sizes else (0,)
        for n in sizes if holds else sizes[:1]:
            fixed = {**sample.case.fixed, literal.value: n} if n else sample.case.fixed
            yield from _shaped_otherwise(sample, literal.name, fixed)
        yield from () if holds else (_left_out(sample, literal.name),)
    elif literal.kind in ("some", "none"):
        for one in (sample.case, case):
            yield from (replace(one, seed=case.seed + step, literals={}) for step in range(1, SEEDS + 1))


def _multiplied(sample: Sample, literal: Literal, *, holds: bool) -> Iterator[Case]:
    """Cases in which one of two sizes is another number of times as large as the other."""
    name, other = literal.name, literal.value
    for times in (3, 5, 6, 7) if holds is (literal.kind == "unpowered") else (2, 4, 1, 8):
        yield _with(sample, name, times * sample.values[other])
        sizes = (size for size in sample.mechanism.sizes if size not in (name, other))
        yield from (_with(sample, size, times) for size in sizes)  # as of groups, by which heads follow


def _related(sample: Sample, literal: Literal, *, holds: bool) -> Iterator[Case]:
    """Cases in which one of two sizes stands otherwise to the other."""
    name, other = literal.name, literal.value
    first, second = sample.values[name], sample.values[other]
    if literal.kind == "same":
        targets = (0,) if holds else (1, 2)
    elif literal.kind == "other":
        targets = (1, 2, -1) if holds else (0,)
    else:
        targets = (1, 2, first) if holds else (0,)  # the other one is to be larger; a multiple, where it has to be one
    for by in targets:
        yield _with(sample, other, first + by)
        yield _with(sample, name, second - by if literal.kind == "less" else second + by)


def _given(sample: Sample, name: str, case: Case | None = None) -> Case:
    """The case with an optional input, drawn by the mechanism's own expression."""
    case, sites = case or sample.case, sample.mechanism.inputs[name].draws
    picks = {f"{name}.{site.ordinal}": 1 for site in sites if site.name == "maybe"}
    fixed = {key: x for key, x in case.fixed.items() if key != name}
    literals = {key: x for key, x in case.literals.items() if key != name}
    return replace(case, fixed=fixed, picks={**case.picks, **picks}, literals=literals)


def _shaped_otherwise(sample: Sample, name: str, fixed: Mapping[str, Any]) -> Iterator[Case]:
    """The case with an optional input, for which every choice of its shape is made."""
    given = _given(sample, name)
    sites = [site for site in sample.mechanism.inputs[name].draws if site.name == "choice"]
    for chosen in itertools.product(*(range(site.count or 1) for site in sites)):
        picks = {f"{name}.{site.ordinal}": index for site, index in zip(sites, chosen, strict=True)}
        kept = {key: x for key, x in fixed.items() if key != name}
        yield replace(given, fixed=kept, picks={**given.picks, **picks}, literals={}, scenario="")


def _left_out(sample: Sample, name: str, case: Case | None = None) -> Case:
    case = case or sample.case
    literals = {key: x for key, x in case.literals.items() if key != name}
    return replace(case, fixed={**case.fixed, name: sample.mechanism.defaults.get(name)}, literals=literals)


def _values(sample: Sample, name: str, case: Case | None = None) -> Iterator[Case]:
    """The case with each of the values that an option is drawn from, the first one last, which is the usual one."""
    case = case or sample.case
    fixed = {key: x for key, x in case.fixed.items() if key != name}
    for site in sample.mechanism.options[name].draws:
        for index in reversed(range(min(site.count or 0, VALUES))):
            picks = {**case.picks, f"{name}.{site.ordinal}": index}
            yield replace(case, fixed=fixed, picks=picks, literals={})
