"""Which cases a subject is tested on: scenarios, a covering array of pairs, draws of Hypothesis, crossed sizes.

Scenarios find most, for each was designed to; the covering array tries every two settings together; Hypothesis draws
structure, regime and seed for the rest. A plan is drawn once and serves every subject that claims the same.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..execution.limits import allows
from ..language.scopes import Values
from ..mechanisms.evidence import evidence_of
from ..mechanisms.mechanism import Mechanism
from ..subjects.claims import Claims
from .applicability import applicable, pins, plain_options, undeclared
from .covering import covered, crossed
from .drawing import drawn, seed_of
from .exploring import explored
from .profiles import PROFILES, Profile
from .samples import Case, Sample, Unfit, unmet


def directed(mechanism: Mechanism, claims: Claims, seed: int) -> Iterator[Case]:
    """The scenarios and the worked examples, as far as the claims go.

    What they do not assign is plain: options and optional inputs are at their default, and only sizes are drawn.
    """
    pinned, plain = pins(mechanism, claims), plain_options(mechanism, claims)
    settings = [(name, name, setting.assigned) for name, setting in mechanism.scenarios.items()]
    settings += [(f"example:{name}", name, example.given) for name, example in mechanism.examples.items()]
    for scenario, label, assigned in settings:
        if not applicable(assigned, pinned):
            continue
        free = {n: x for n, x in {**plain, **pinned}.items() if n not in assigned}
        counts = [
            (f"{name}.{site.ordinal}@scenario", site.count or 1)
            for name, expression in assigned.items()
            for site in expression.draws
            if site.name == "every"
        ]
        for indices in itertools.product(*(range(count) for _, count in counts)):
            number = f"[{', '.join(map(str, indices))}]" if indices else ""
            picks = {key: index for (key, _), index in zip(counts, indices, strict=True)}
            yield Case(mechanism.name, label + number, seed_of(seed, mechanism.name, label), free, picks, scenario)


def beyond_limits(mechanism: Mechanism, claims: Claims, dtype: str) -> dict[str, list[str]]:
    """The scenarios that other sizes take the place of, or none, under the limits of a subject; with those limits."""
    found: dict[str, list[str]] = {}
    unlimited = replace(claims, limits={}, requires=(), ties={})
    for case in directed(mechanism, unlimited, 0) if claims.limits or claims.requires else ():
        try:
            values = Sample(mechanism, case, dtype, claims=unlimited).values
        except Unfit:  # what is fixed does not go with the rest of the scenario
            found[case.label] = sorted(claims.fixed)
            continue
        beyond = [
            name for name, allowed in claims.limits.items() if name in values and not allows(allowed, values[name])
        ]
        lacking = unmet(claims, Values(values, dtype))
        beyond += sorted(lacking.uses) if lacking else []
        if beyond:
            found[case.label] = beyond
    return found


# Plans, drawn once


FEW = 4
"""Rows of the covering array for what compiles for every shape."""
UNFIT = 4
"""Draws for each sample of those that are left out where they are unfit."""
INTERPRETED = 100_000
"""Entries of a case up to which an interpreter takes seconds."""
SPARED = 2
"""Rows of it for what is only taken to."""


class Plan:
    """The samples of one mechanism for all subjects with the same claims, drawn when they are first asked for."""

    def __init__(self, mechanism: Mechanism, claims: Claims, profile: Profile, seed: int, dtype: str) -> None:
        self.mechanism, self.claims, self.profile, self.seed, self.dtype = mechanism, claims, profile, seed, dtype
        self._begun: list[Sample | None] = []
        self._further: list[Sample | None] = []

    def blocks(self) -> Iterator[list[Sample]]:
        """The scenarios, the covering array, the draws."""
        yield self.first
        yield self.pairs
        yield self.draws

    @functools.cached_property
    def scenarios(self) -> list[Sample]:
        """All of them, in the order of the specification: the plain ones first, which make the plainest witnesses."""
        return [*self.one_by_one()]

    def one_by_one(self, *, pairs: bool = False) -> Iterator[Sample]:
        """The scenarios, each drawn when it is first asked for; with `pairs`, the covering array behind them."""
        most = INTERPRETED if self.claims.interpreted else math.inf
        for index, case in enumerate(self._directed):
            if index == len(self._begun):
                self._begun.append(drawn(self.mechanism, case, self.claims, self.dtype))
            sample = self._begun[index]
            if sample is not None and sample.entries <= most:
                yield sample
        if pairs:
            yield from self.pairs

    @functools.cached_property
    def _directed(self) -> list[Case]:
        return [*directed(self.mechanism, self.claims, self.seed)]

    @property
    def first(self) -> list[Sample]:
        """The scenarios that are tried."""
        if not (self.profile.core or self._spares):
            return self.scenarios
        core = set(self.core)
        return [sample for sample in self.scenarios if sample.case.label in core]

    @functools.cached_property
    def core(self) -> list[str]:
        """The scenarios that show every known mistake, those first that show most; all of them, if none is known."""
        labels, known = [sample.case.label for sample in self.scenarios], evidence_of(self.mechanism)
        return labels if known is None else known.core(labels, self.dtype)

    def urgent(self) -> Iterator[list[Sample]]:
        """The blocks for who has little time, or ends at the first violation: first what shows most for its time."""
        rank = {label: number for number, label in enumerate(self.core)}
        yield sorted(self.first, key=lambda sample: rank.get(sample.case.label, len(rank)))
        yield self.pairs
        yield self.draws

    @functools.cached_property
    def pairs(self) -> list[Sample]:
        rows = covered(self.mechanism, self.claims, self.seed, self.dtype)
        room = SPARED if self._spares else FEW if self.few else self.profile.covering
        return list(itertools.islice(rows, min(self.profile.covering, room)))

    @functools.cached_property
    def crossed(self) -> list[Sample]:
        """Those of crossed sizes, which only the definition is tried on."""
        if self._spares:
            return []
        rows = crossed(self.mechanism, self.claims, self.seed, self.dtype)
        return list(itertools.islice(rows, min(self.profile.crossed, FEW if self.few else self.profile.crossed)))

    @functools.cached_property
    def draws(self) -> list[Sample]:
        if self.few or not self.profile.draws:
            return []
        return explored(self.mechanism, self.claims, self.seed, self.dtype, self.profile.draws)

    @property
    def few(self) -> bool:
        """Whether the subject compiles for every shape, so that few shapes are tried."""
        return self.claims.compiled

    @property
    def _spares(self) -> bool:
        """Whether that is only taken to be so, and nobody has asked for much."""
        return self.claims.sparing and not self.profile.strict

    def further(self, count: int) -> Iterator[Sample]:
        """Samples beyond the plan, for laws that the plan has hardly reached."""
        for sample in self._beyond(count):
            if sample is not None:
                yield sample
            elif not self.claims.requires:
                return

    def more(self, count: int) -> Iterator[Sample]:
        """So many samples beyond the plan, for who looks for a call that shows something; unfit draws are left out."""
        fit = (sample for sample in self._beyond(UNFIT * count) if sample is not None)
        yield from itertools.islice(fit, count)

    def _beyond(self, count: int) -> Iterator[Sample | None]:
        """So many draws beyond the plan, None for each that is unfit."""
        for index in range(count):
            if index == len(self._further):
                label = f"further {index + 1}"
                own = seed_of(self.seed, self.mechanism.name, label)
                case = Case(self.mechanism.name, label, own, pins(self.mechanism, self.claims))
                self._further.append(drawn(self.mechanism, case, self.claims, self.dtype))
            yield self._further[index]


class Plans(OrderedDict[tuple[Any, ...], Plan]):
    """The plans of a library that were asked for last."""


def plan(mechanism: Mechanism, claims: Claims, profile: Profile, seed: int, dtype: str, room: int = 128) -> Plan:
    """The plan for a mechanism and claims; the last ones asked for are kept."""
    key = (mechanism.name, mechanism.digest, claims.key, profile, seed, dtype)
    plans = mechanism.kept(Plans)
    if key not in plans:
        plans[key] = Plan(mechanism, claims, profile, seed, dtype)
        if len(plans) > room:
            plans.popitem(last=False)
    plans.move_to_end(key)
    return plans[key]


def scenarios_of(mechanism: Mechanism, claims: Claims, *, seed: int, dtype: str) -> Iterator[Sample]:
    """The scenarios of every mechanism of an operator, as far as the claims go."""
    for each in mechanism.kin:
        if undeclared(each, claims, dtype) is None:
            yield from plan(each, claims, PROFILES["quick"], seed, dtype).one_by_one()
