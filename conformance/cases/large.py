"""Cases of production size, whose arrays are generated where they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import SpecError
from ..language.draws import Source
from ..language.expressions import Expression
from ..language.scopes import Values
from ..mechanisms.mechanism import Mechanism, Setting
from ..mechanisms.serving import ROW, Far, at_tiles, far_of, invariance, serving, threads
from ..numerics import budget
from ..numerics.drawn import Drawn, pool_places
from ..subjects.claims import Claims
from .applicability import applicable, pins, plain_options
from .drawing import seed_of
from .samples import Case, DrawSource, Sample, Unfit

ROOM = 1 << 50
"""Bytes that sizes may speak of: what is drawn as a key takes none."""
NAMED = "serving."
"""What the labels of large cases begin with."""
LARGE = 1 << 12
"""Entries from which an array is made where it is used."""


class LargeSample(Sample):
    """A case of which large arrays are keys."""

    far: Far | None = None
    """How its arrays lie, if they are not simply one after the other."""

    @property
    def handed(self) -> dict[str, Any]:
        """The values as a subject is handed them: in more memory than they fill, if the case says so.

        What they mean is the same: a longer stride, or other places of a pool.
        """
        if self.far is None:
            return self.values
        far, found, context = self.far, dict(self.values), Values(self.values, self.dtype)
        drawn = {name: x for name, x in self.values.items() if isinstance(x, Drawn)}
        if far.pool is None:
            return found | {name: replace(x, apart=self.apart) for name, x in drawn.items()}
        pool, shapes = int(far.pool(context)), self.mechanism.stating.shapes
        for name, x in drawn.items():
            if far.axis in shapes[name]:
                found[name] = replace(x, axis=shapes[name].index(far.axis), pool=pool)
        count, numbers = int(self.values[far.axis]), np.asarray(self.values[far.numbers])
        places = pool_places(count, pool)
        return found | {far.numbers: np.where(numbers >= 0, places[np.clip(numbers, 0, count - 1)], numbers)}

    @property
    def apart(self) -> int:
        """How many entries of memory lie between the ends of an axis of every array; 0 if they lie as usual."""
        stated = None if self.far is None else self.far.apart
        return 0 if stated is None else int(stated(Values(self.values, self.dtype)))

    def another(self, case: Case, claims: Claims) -> LargeSample:
        with budget.roomy(ROOM):
            found = type(self)(self.mechanism, case, self.dtype, claims=claims)
        found.far = self.far
        return found

    def keyed(self, name: str, entries: int) -> bool:
        """Whether an array that is drawn for an input is a key; codes of further mechanisms are computed from draws."""
        return entries >= LARGE and self.mechanism.name == self.mechanism.operator

    def _drawn(self, name: str, layers: Sequence[tuple[str, Expression]]) -> Any:
        (layer, expression), below = layers[0], layers[1:]
        return expression(_LargeDrawing(self, name, layer, below))

    def _rounded(self, name: str, x: Any) -> Any:
        return x if isinstance(x, Drawn) else super()._rounded(name, x)

    def _primary(self) -> dict[str, Any]:
        return {name: x for name, x in super()._primary().items() if not isinstance(x, Drawn)}


class _LargeDrawing:
    """The environment of one drawing expression, whose large arrays are keys."""

    def __init__(self, sample: LargeSample, name: str, layer: str, below: Sequence[tuple[str, Expression]]) -> None:
        self.plain = sample.drawing(name, layer, below)
        self.grade, self.dtype = self.plain.grade, self.plain.dtype
        self.word, self.operator, self.output = self.plain.word, self.plain.operator, self.plain.output

    def __getitem__(self, name: str) -> Any:
        return self.plain[name]

    def source(self, ordinal: int) -> Source:
        found = self.plain.source(ordinal)
        assert isinstance(found, DrawSource)
        return _LargeSource(found.sample, found.key)


class _LargeSource(DrawSource):
    def normal(self, shape: tuple[int, ...]) -> Any:
        entries = 1
        for n in shape:
            entries *= n
        sample = self.sample
        assert isinstance(sample, LargeSample)
        if not sample.keyed(self.key.partition(".")[0], entries):
            return super().normal(shape)
        return Drawn(f"{self.sample.case.seed}.{self.sample.mechanism.name}.{self.key}", shape)


def large_again(mechanism: Mechanism, case: Case, claims: Claims, dtype: str) -> LargeSample | None:
    """A case that was kept, with its arrays; None where there is none of its name any more."""
    known = {**serving(mechanism), **at_tiles(mechanism, claims.tiles, claims.splits)}
    known |= {f"{kind}_invariant": company.assigned for kind, company in invariance(mechanism).items()}
    known |= {} if (beside := threads(mechanism)) is None else {"threads": beside}
    assigned = known.get(case.scenario.removeprefix(NAMED))
    if assigned is None:
        return None
    own = replace(mechanism, scenarios={case.scenario: Setting(case.scenario, assigned, None)})
    with budget.roomy(ROOM):
        found = LargeSample(own, case, dtype, claims=claims)
    found.far = far_of(mechanism, case.scenario.removeprefix(NAMED))
    return found


def large_sample(
    mechanism: Mechanism, name: str, assigned: Mapping[str, Expression], claims: Claims, dtype: str, seed: int
) -> LargeSample | str:
    """The case of that name, or why a subject is not asked for it.

    A row of a covering array is tried without what the subject does not take.
    """
    pinned, label = pins(mechanism, claims), f"{NAMED}{name}"
    if name.startswith(ROW):
        assigned = {n: x for n, x in assigned.items() if n not in pinned}
    if not applicable(assigned, pinned):
        beyond = [n for n, x in assigned.items() if n in pinned and not applicable({n: x}, pinned)]
        return f"does not take {beyond[0]}"
    own = replace(mechanism, scenarios={label: Setting(label, assigned, None)})
    free = {n: x for n, x in {**plain_options(mechanism, claims), **pinned}.items() if n not in assigned}
    case = Case(mechanism.name, label, seed_of(seed, mechanism.name, label), free, scenario=label)
    try:
        with budget.roomy(ROOM):
            found = LargeSample(own, case, dtype, claims=claims)
        found.far = far_of(mechanism, name)
        return found
    except Unfit as error:
        return str(error)
    except SpecError as error:
        if claims.limits:
            return error.message
        raise
