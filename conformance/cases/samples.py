"""Cases, and the input arrays that are drawn from them.

A `Case` is small and printable: the numbers and words that were drawn, and a seed.
It holds no arrays; a `Sample` draws them again from the seed, so the same case is the same on every machine.
Which cases are tried is decided in `plans`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError, UsageError
from ..execution.limits import allows, nearest
from ..language.draws import Source
from ..language.expressions import Expression
from ..language.scopes import CallSite, Values
from ..mechanisms.definition import Frame, sizes_of
from ..mechanisms.mechanism import Mechanism
from ..numerics import budget
from ..numerics.codes import stored_as
from ..numerics.grades import Grade
from ..numerics.numbers import value
from ..numerics.streams import Stream, pick
from ..subjects.claims import Claims
from .cache import PASSING, Kept

Picker = Callable[[str, int], int]
"""Decides a draw of one number: its key and the number of its choices, to the index of one."""


@dataclass(frozen=True, slots=True)
class Case:
    """One drawn input.

    `fixed` holds the sizes and options that were drawn (not those that follow from others); `picks` the choices inside
    the expressions of inputs; `literals` arrays that were written out, which take the place of draws.
    """

    mechanism: str
    label: str
    seed: int
    fixed: Mapping[str, Any] = field(default_factory=dict)
    picks: Mapping[str, int] = field(default_factory=dict)
    scenario: str = ""
    regime: str = ""
    layout: str = "contiguous"
    literals: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A short name for the case, the same wherever it is drawn."""
        text = repr(
            (
                self.mechanism,
                self.seed,
                sorted(self.fixed.items()),
                sorted(self.picks.items()),
                self.scenario,
                self.regime,
                self.layout,
                sorted((n, repr(x)) for n, x in self.literals.items()),
            )
        )
        return letters(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=5).digest(), "big"))


def letters(n: int) -> str:
    """A number in letters and digits that are not mistaken for one another."""
    alphabet = "23456789abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ"
    digits = ""
    while n or not digits:
        n, digit = divmod(n, len(alphabet))
        digits += alphabet[digit]
    return digits


class Unfit(Exception):  # noqa: N818 - a drawn case that is none
    """What was drawn lies outside the domain, or outside what the subject claims."""


class Sample:
    """A case with its arrays: the environment in which they are drawn, and the values once they are.

    Names are drawn lazily, each from a stream of its own, so the order of entries is immaterial.
    """

    grade: Grade | None = None

    def __init__(
        self,
        mechanism: Mechanism,
        case: Case,
        dtype: str,
        *,
        claims: Claims | None = None,
        picker: Picker | None = None,
    ) -> None:
        """Draw everything; `Unfit` where the result is outside the domain or the claims."""
        self.mechanism, self.dtype, self.case, self.claims = mechanism, dtype, case, claims
        self.scenario = _setting(mechanism, case)
        self.regime = mechanism.regimes[case.regime].assigned if case.regime else {}
        self._picker = picker
        self._memo: dict[str, Any] = dict(case.fixed)
        self._held = 0
        self._busy: list[str] = []
        self._layer = ""
        self._picked: dict[str, int] = {}
        self.cache = Kept()
        """What others compute from these arrays, and want to find again."""
        self.passing = Kept(PASSING)
        """The same of what is large and soon computed again: lines of the definition, and what candidates give."""
        with np.errstate(all="ignore"), budget.metered():
            self.layout = str(self[("layout")]) if "layout" in self.scenario else case.layout
            names = (*mechanism.sizes, *mechanism.options, *mechanism.inputs)
            self.values: dict[str, Any] = {name: self[name] for name in names}
            self.values |= sizes_of(mechanism, self.values)
            self._settle()
        self.case = replace(case, fixed=self._primary(), picks=self._input_picks(), layout=self.layout)

    # The environment of draws

    def __getitem__(self, name: str) -> Any:
        if name in self._memo:
            return self._memo[name]
        if name in self.case.literals:
            return self._memo.setdefault(name, np.asarray(self.case.literals[name]))
        if name in self._busy:
            raise SpecError(f"a cycle of draws: {' -> '.join([*self._busy, name])}")
        layers = [(layer, texts[name]) for layer, texts in self._layers() if name in texts]
        if not layers:
            raise SpecError(f"nothing is drawn for {name!r}")
        self._busy.append(name)
        try:
            drawn = self._rounded(name, self._drawn(name, layers))
        finally:
            self._busy.pop()
        self._held += getattr(drawn, "nbytes", 0)
        budget.hold(self._held, layers[0][1].place)
        return self._memo.setdefault(name, self._snapped(name, drawn))

    def _layers(self) -> Iterator[tuple[str, Mapping[str, Expression]]]:
        """What says how names are drawn, the strongest first; each sees what it replaces."""
        m = self.mechanism
        yield "scenario", self.scenario
        yield "regime", self.regime
        yield "", {**m.sizes, **m.options, **m.inputs}

    def _drawn(self, name: str, layers: Sequence[tuple[str, Expression]]) -> Any:
        (layer, expression), below = layers[0], layers[1:]
        return expression(self.drawing(name, layer, below))

    def drawing(self, name: str, layer: str, below: Sequence[tuple[str, Expression]]) -> _Drawing:
        """The environment in which the expression of a layer is evaluated."""
        return _Drawing(self, name, layer, below)

    def _rounded(self, name: str, x: Any) -> Any:
        """Inputs are rounded after every expression that makes them: the definition reads what the subject reads."""
        x = self.mechanism.as_drawn(name, value(x))
        if isinstance(x, np.generic):
            return x.item()
        if name not in self.mechanism.inputs or not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            return x
        own = self.mechanism.dtypes.get(name)
        said = {own: self[own]} if own in self.mechanism.typing else None
        return stored_as(x, self.mechanism.dtype_of(name, self.dtype, said))

    def _snapped(self, name: str, x: Any) -> Any:
        """What was drawn at the nearest value that the subject's limits allow, or what it has to equal.

        An option that the subject is never without has the subject's own number instead of none.
        """
        if x is None and self.claims and name in self.claims.usual:
            return self.claims.usual[name]
        if self.claims and name in self.claims.ties:
            return self[self.claims.ties[name]]
        if self.claims and name in self.claims.filled:
            return np.full_like(x, self.claims.filled[name])
        allowed = self.claims.limits.get(name) if self.claims else None
        if allowed is None or isinstance(x, np.ndarray) or allows(allowed, x):
            return x
        near = nearest(allowed, x) if isinstance(x, int) and not isinstance(x, bool) else None
        return next(iter(allowed)) if near is None else near

    def pick(self, key: str, count: int) -> int:
        self._picked[key] = (self._picker or self._stored)(key, count) % max(count, 1)
        return self._picked[key]

    def _stored(self, key: str, count: int) -> int:
        if key in self.case.picks:
            return self.case.picks[key]
        return pick(count, self.case.seed, self.mechanism.name, key)

    def stream(self, *key: object) -> Stream:
        return Stream(self.case.seed, self.mechanism.name, *key)

    # What was drawn

    def _settle(self) -> None:
        values, case = self.values, self.case
        if self.layout == "expanded":
            for name in self.mechanism.required:
                values[name] = _alike(values[name])
        for name, x in case.literals.items():
            if name in values:
                values[name] = np.asarray(x)
        allowed = self.claims.limits if self.claims else {}
        for name, limit in allowed.items():
            if name in values and not allows(limit, values[name]):
                raise Unfit(f"{name} = {values[name]} is outside the limits")
        context = Values(values, self.dtype)
        for condition in self.mechanism.requires.values():
            if not bool(np.all(condition(context))):
                raise Unfit(f"not {condition.text}")
        lacking = unmet(self.claims, context) if self.claims else None
        if lacking is not None:
            raise Unfit(f"not {lacking.text}, which the subject requires")

    def _primary(self) -> dict[str, Any]:
        """The sizes and options that do not follow from others, and inputs that are single values."""
        result: dict[str, Any] = {}
        for name, x in self.values.items():
            if isinstance(x, np.ndarray):
                continue
            own = self.scenario.get(name) or {**self.mechanism.sizes, **self.mechanism.options}.get(name)
            if name in self.mechanism.inputs or own is None or own.draws or not own.uses or self._differs(name, own):
                result[name] = x
        return result

    def _differs(self, name: str, own: Expression) -> bool:
        """Whether a size or an option was fixed, and would be another one if it were not."""
        return name in self.case.fixed and own(Values(self.values, self.dtype)) != self.values[name]

    def _input_picks(self) -> dict[str, int]:
        arrays = {n for n in self.mechanism.inputs if isinstance(self.values[n], np.ndarray)}
        return {key: index for key, index in self._picked.items() if key.partition(".")[0] in arrays}

    def another(self, case: Case, claims: Claims) -> Sample:
        """Another case of the mechanism, drawn as this one is; `Unfit` as of a new one."""
        return type(self)(self.mechanism, case, self.dtype, claims=claims)

    @functools.cached_property
    def key(self) -> str:
        """The name of its case."""
        return self.case.key

    @functools.cached_property
    def entries(self) -> int:
        """The number of entries of all arrays."""
        return sum(x.size for x in self.values.values() if isinstance(x, np.ndarray))


class _Drawing:
    """The environment of one drawing expression: its own streams, and below its own name what it replaces."""

    grade: Grade | None = None

    def __init__(self, sample: Sample, name: str, layer: str, below: Sequence[tuple[str, Expression]]) -> None:
        self.sample, self.name, self.layer, self.below, self.dtype = sample, name, layer, below, sample.dtype
        self._own: Any = None

    def __getitem__(self, name: str) -> Any:
        if name != self.name:
            return self.sample[name]
        if not self.below:
            raise SpecError(f"{name} is drawn from itself")
        if self._own is None:
            self._own = self.sample._rounded(name, self.sample._drawn(name, self.below))
        return self._own

    def source(self, ordinal: int) -> Source:
        layer = f"@{self.layer}" if self.layer else ""
        return DrawSource(self.sample, f"{self.name}.{ordinal}{layer}")

    def word(self, convention: str) -> str:
        words = self.sample.mechanism.words
        return words[convention] if convention in words else self.sample[convention]

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        mechanism = self.sample.mechanism.beside(name)
        return Frame(mechanism, arguments)[mechanism.outputs[0]]

    def output(self, name: str, site: CallSite | None) -> Any:
        raise SpecError("inputs are drawn before outputs exist")


class DrawSource:
    """The source of one draw: single numbers come from the sample's picker, arrays from a stream."""

    def __init__(self, sample: Sample, key: str) -> None:
        self.sample, self.key = sample, key

    def pick(self, count: int) -> int:
        return self.sample.pick(self.key, count)

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return self.sample.stream(self.key).normal(shape)

    def uniform(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return self.sample.stream(self.key).uniform(shape)

    def below(self, limit: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return self.sample.stream(self.key).below(limit, shape)

    def permutation(self, n: int) -> NDArray[np.int64]:
        return self.sample.stream(self.key).permutation(n)


def unmet(claims: Claims, context: Values) -> Expression | None:
    """The first of the declared conditions on calls that a call does not meet; `UsageError` for one of no truth."""
    for condition in claims.requires:
        if not condition.uses <= context.values.keys():
            continue  # it is about what a further mechanism of the operator has
        try:
            if not bool(np.all(condition(context))):
                return condition
        except SpecError as error:
            raise UsageError(f"requires: {error}") from None
    return None


def _alike(x: Any) -> Any:
    """`x` with the slices along its first axis of several all like the first, as an expanded layout stores it."""
    if not isinstance(x, np.ndarray) or x.ndim < 2:
        return x
    axis = next((a for a in range(x.ndim - 1) if x.shape[a] > 1), None)
    return x if axis is None else np.broadcast_to(x.take([0], axis), x.shape).copy()


def fitting(mechanism: Mechanism, case: Case, dtype: str, claims: Claims) -> Sample | None:
    """What a case draws for a subject; None where that is outside the domain or the claims."""
    try:
        return Sample(mechanism, case, dtype, claims=claims)
    except (Unfit, SpecError):
        return None


def _setting(mechanism: Mechanism, case: Case) -> Mapping[str, Expression]:
    if not case.scenario:
        return {}
    example = case.scenario.removeprefix("example:")
    if example != case.scenario:
        return mechanism.examples[example].given
    settings = mechanism.crossed if case.scenario in mechanism.crossed else mechanism.scenarios
    return settings[case.scenario].assigned
