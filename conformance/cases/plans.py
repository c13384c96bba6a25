"""Which cases a subject is tried on: directed ones first, then a covering array of pairs, then Hypothesis.

Scenarios find most, for each was designed to; the covering array tries every two settings together; Hypothesis draws
structure, regime and seed for the rest. A plan is drawn once and serves every subject that claims the same.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any
from weakref import WeakValueDictionary

from ..errors import SpecError, UsageError, did_you_mean
from ..execution.declarations import allows
from ..language.expressions import Expression
from ..language.scopes import Values
from ..mechanisms.amounts import levels_of
from ..mechanisms.evidence import evidence_of
from ..mechanisms.inspection import NO_DEFAULT, default_of
from ..mechanisms.mechanism import DRAWN_LAYOUTS, Mechanism
from ..numerics.streams import digest, pick
from ..subjects.claims import Claims
from .disk import keep_cases, kept_cases, key_of, key_of_draws, restore, save
from .samples import Case, Picker, Sample, Unfit, unmet


@dataclass(frozen=True, slots=True)
class Profile:
    """How much is tried. The definition is tried on every case; every other law has its number of cases."""

    name: str
    covering: int
    """Rows of the covering array."""
    draws: int
    """Cases that Hypothesis draws."""
    admitted: int
    """Cases of each block (scenarios, covering array, draws) that a law is tried on; the least it is to have in all."""
    strict: bool = False
    """Whether an undeclared convention is a failure: a gate must know what it gates."""
    core: bool = False
    """Whether only those scenarios are tried that are needed to show every known mistake.

    They miss a good part of the mistakes that nobody knows yet.
    """


PROFILES = {
    "smoke": Profile("smoke", covering=0, draws=0, admitted=1, core=True),
    "quick": Profile("quick", covering=8, draws=6, admitted=2),
    "ci": Profile("ci", covering=80, draws=60, admitted=12, strict=True),
    "nightly": Profile("nightly", covering=400, draws=1000, admitted=100, strict=True),
}


def profile_named(name: str) -> Profile:
    """The profile of that name; an unknown one is a `UsageError`."""
    if name not in PROFILES:
        raise UsageError(f"unknown profile {name!r}{did_you_mean(name, PROFILES)} (profiles: {', '.join(PROFILES)})")
    return PROFILES[name]


def undeclared(mechanism: Mechanism, claims: Claims) -> str | None:
    """What of a mechanism a subject does not claim at all, or None where it can be tried."""
    for name in (*mechanism.optional, *mechanism.options):
        claimed = name in claims.names or name in claims.fixed
        if not claimed and name not in mechanism.defaults:
            return f"does not take {name}"
        only = (
            claims.fixed.get(name, mechanism.defaults.get(name))
            if name not in claims.names or name in claims.fixed
            else NO_DEFAULT
        )
        if name in mechanism.own and only is not NO_DEFAULT:
            drawn = {**mechanism.inputs, **mechanism.options}[name]
            if default_of(drawn, ()) != only:
                return f"takes {name} = {only} only" if claimed else f"does not take {name}"
    return None


def pins(mechanism: Mechanism, claims: Claims) -> dict[str, Any]:
    """What is settled before drawing: options that are fixed, and the defaults of what is not claimed."""
    optional = (*mechanism.optional, *mechanism.options)
    unclaimed = {n: mechanism.defaults[n] for n in optional if n not in claims.names and n in mechanism.defaults}
    return {**unclaimed, **{n: x for n, x in claims.fixed.items() if n in mechanism.options}}


def plain_options(mechanism: Mechanism) -> dict[str, Any]:
    """The options and optional inputs of a mechanism at the first choice of their draws."""
    drawn = {**mechanism.options, **{name: mechanism.inputs[name] for name in mechanism.optional}}
    named = (*mechanism.conventions.values(), *mechanism.vocabulary.values())
    words = {word for words in named for word in words}
    found = {name: default_of(expression, words) for name, expression in drawn.items()}
    return {name: default for name, default in found.items() if default is not NO_DEFAULT}


def applicable(setting: Mapping[str, Expression], pinned: Mapping[str, Any]) -> bool:
    """Whether a scenario or regime asks for nothing but what is pinned, where something is."""
    for name, expression in setting.items():
        if name in pinned:
            wanted = default_of(expression, ())
            if wanted is NO_DEFAULT or wanted != pinned[name]:
                return False
    return True


def seed_of(seed: int, *key: object) -> int:
    """The seed of one case of a run."""
    return digest(seed, *key, size=4)


def directed(mechanism: Mechanism, claims: Claims, seed: int) -> Iterator[Case]:
    """The scenarios and the worked examples, as far as the claims go.

    What they do not assign is plain: options and optional inputs are at their default, and only sizes are drawn.
    """
    pinned, plain = pins(mechanism, claims), plain_options(mechanism)
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
        values = Sample(mechanism, case, dtype, claims=unlimited).values
        beyond = [
            name for name, allowed in claims.limits.items() if name in values and not allows(allowed, values[name])
        ]
        lacking = unmet(claims, Values(values, dtype))
        beyond += sorted(lacking.uses) if lacking else []
        if beyond:
            found[case.label] = beyond
    return found


class Samples(WeakValueDictionary[tuple[Any, ...], Sample]):
    """The samples of a library that are in use."""


def drawn(mechanism: Mechanism, case: Case, claims: Claims, dtype: str, picker: Picker | None = None) -> Sample | None:
    """A sample of a case that is still to be settled, or None where it is unfit or, under limits, impossible.

    Where nothing but the case decides, plans of other claims that have it share it, and what was computed from it.
    """
    key = (mechanism.name, mechanism.digest, dtype, case.label, case.key, claims.bounds)
    samples = mechanism.kept(Samples)
    if picker is None and key in samples:
        return samples[key]
    try:
        sample = Sample(mechanism, case, dtype, claims=claims, picker=picker)
        if picker is not None:  # what it has picked is settled now
            key = (mechanism.name, mechanism.digest, dtype, case.label, sample.case.key, claims.bounds)
        if key not in samples:
            restore(sample)
        return samples.setdefault(key, sample)
    except Unfit:
        return None
    except SpecError:
        if not claims.limits:
            raise
        return None


def keep(mechanism: Mechanism) -> None:
    """Keep for later runs what was computed from the samples of its library."""
    save([*mechanism.kept(Samples).values()])


@dataclass(frozen=True, slots=True)
class Factor:
    """Something that a covering array varies: a draw of one number, the regime, or the layout."""

    key: str
    levels: tuple[Any, ...]


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
    pairs = {
        (i, a, j, b)
        for (i, f), (j, g) in itertools.combinations(enumerate(factors), 2)
        for a in range(len(f.levels))
        for b in range(len(g.levels))
    }
    turn = 0
    for i, a, j, b in sorted(pairs, key=lambda pair: _scattered(*pair)):
        if (i, a, j, b) not in pairs:
            continue
        row = {i: a, j: b}
        for k, factor in enumerate(factors):
            if k not in row:
                row[k] = max(
                    range(len(factor.levels)),
                    key=lambda level: (
                        sum(_pair(k, level, *item) in pairs for item in row.items()),
                        -_scattered(turn, k, level),
                    ),
                )
        pairs -= {_pair(k, level, *other) for k, level in row.items() for other in row.items()}
        turn += 1
        yield {factor.key: factor.levels[row[k]] for k, factor in enumerate(factors)}


def _pair(i: int, a: int, j: int, b: int) -> tuple[int, int, int, int]:
    return (i, a, j, b) if i < j else (j, b, i, a)


def _scattered(*key: Any) -> int:
    """A fixed but patternless order."""
    return zlib.crc32(repr(key).encode())


def covered(mechanism: Mechanism, claims: Claims, seed: int, dtype: str) -> Iterator[Sample]:
    """The samples of the covering array."""
    pinned = pins(mechanism, claims)
    for number, row in enumerate(covering(factors(mechanism, claims))):
        label = f"pair {number + 1}"
        case = Case(
            mechanism.name,
            label,
            seed_of(seed, mechanism.name, label),
            pinned,
            regime=row.get("regime", ""),
            layout=row.get("layout", "contiguous"),
        )

        def picker(key: str, count: int, row: dict[str, Any] = row, case: Case = case) -> int:
            return row[key] if key in row else pick(count, case.seed, key)

        sample = drawn(mechanism, case, claims, dtype, picker)
        if sample is not None:
            yield sample


class Structures:
    """Samples of which somebody else draws everything but the entries of arrays, by integers below a limit.

    The least integers are the simplest: a plain regime and layout, small sizes, options at their default.
    """

    def __init__(self, mechanism: Mechanism, claims: Claims, dtype: str) -> None:
        self.mechanism, self.claims, self.dtype = mechanism, claims, dtype
        self.pinned = pins(mechanism, claims)
        self.regimes = next(f.levels for f in factors(mechanism, claims) if f.key == "regime")

    def sample(self, label: str, below: Callable[[int], int]) -> Sample | None:
        """One sample; None where what was drawn is unfit."""
        regime, layout = self.regimes[below(len(self.regimes))], DRAWN_LAYOUTS[below(len(DRAWN_LAYOUTS))]
        case = Case(self.mechanism.name, label, below(2**32), self.pinned, regime=regime, layout=layout)
        return drawn(self.mechanism, case, self.claims, self.dtype, lambda key, n: below(max(n, 1)))


def explored(mechanism: Mechanism, claims: Claims, seed: int, dtype: str, count: int) -> list[Sample]:
    """Samples that Hypothesis draws: structure, regime, layout and seed; those of an earlier run if they are kept."""
    pinned = pins(mechanism, claims)
    regimes = next(f.levels for f in factors(mechanism, claims) if f.key == "regime")
    asked = (sorted(pinned.items()), claims.bounds, regimes, seed, dtype, count, version("hypothesis"))
    key = key_of_draws(mechanism, repr(asked))
    samples = [drawn(mechanism, case, claims, dtype) for case in kept_cases(key)]
    if samples:
        return [sample for sample in samples if sample is not None]
    found = _explored(mechanism, claims, seed, dtype, count, pinned, regimes)
    if all(_redrawn(sample, claims) for sample in found):
        keep_cases(key, [sample.case for sample in found])
    return found


def _redrawn(sample: Sample, claims: Claims) -> bool:
    """Whether a sample is drawn again from its case as it is."""
    try:
        again = Sample(sample.mechanism, sample.case, sample.dtype, claims=claims)
    except (Unfit, SpecError):
        return False
    return again.case == sample.case and key_of(again) == key_of(sample)


def _explored(
    mechanism: Mechanism,
    claims: Claims,
    seed: int,
    dtype: str,
    count: int,
    pinned: Mapping[str, Any],
    regimes: Sequence[str],
) -> list[Sample]:
    import hypothesis
    from hypothesis import strategies
    from hypothesis.errors import Unsatisfiable

    found: list[Sample] = []
    structures = Structures(mechanism, claims, dtype)
    checks: list[Any] = list(hypothesis.HealthCheck)

    @hypothesis.seed(seed_of(seed, mechanism.name, "explored"))
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=checks,
    )
    @hypothesis.given(strategies.data())
    def explore(data: Any) -> None:
        def below(n: int) -> int:
            return data.draw(strategies.integers(0, n - 1))

        sample = structures.sample(f"draw {len(found) + 1}", below)
        hypothesis.assume(sample is not None)
        if sample is not None:
            found.append(sample)

    with contextlib.suppress(Unsatisfiable):
        explore()
    return found


# Plans, drawn once


class Plan:
    """The samples of one mechanism for all subjects with the same claims, drawn when they are first asked for."""

    def __init__(self, mechanism: Mechanism, claims: Claims, profile: Profile, seed: int, dtype: str) -> None:
        self.mechanism, self.claims, self.profile, self.seed, self.dtype = mechanism, claims, profile, seed, dtype
        self._further: list[Sample | None] = []

    def blocks(self) -> Iterator[list[Sample]]:
        """The scenarios, the covering array, the draws."""
        yield self.first
        yield self.pairs
        yield self.draws

    @functools.cached_property
    def scenarios(self) -> list[Sample]:
        """All of them, in the order of the specification: the plain ones first, which make the plainest witnesses."""
        cases = directed(self.mechanism, self.claims, self.seed)
        samples = (drawn(self.mechanism, case, self.claims, self.dtype) for case in cases)
        return [sample for sample in samples if sample is not None]

    @property
    def first(self) -> list[Sample]:
        """The scenarios that are tried."""
        if not self.profile.core:
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
        return list(itertools.islice(rows, min(self.profile.covering, 4) if self.few else self.profile.covering))

    @functools.cached_property
    def draws(self) -> list[Sample]:
        if self.few or not self.profile.draws:
            return []
        return explored(self.mechanism, self.claims, self.seed, self.dtype, self.profile.draws)

    @property
    def few(self) -> bool:
        """Whether the subject compiles for every shape, so that few shapes are tried."""
        return self.claims.compiled

    def further(self, count: int) -> Iterator[Sample]:
        """Samples beyond the plan, for laws that the plan has hardly reached."""
        for index in range(count):
            if index == len(self._further):
                label = f"further {index + 1}"
                own = seed_of(self.seed, self.mechanism.name, label)
                case = Case(self.mechanism.name, label, own, pins(self.mechanism, self.claims))
                self._further.append(drawn(self.mechanism, case, self.claims, self.dtype))
            sample = self._further[index]
            if sample is not None:
                yield sample
            elif not self.claims.requires:
                return


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
        if undeclared(each, claims) is None:
            yield from plan(each, claims, PROFILES["quick"], seed, dtype).scenarios
