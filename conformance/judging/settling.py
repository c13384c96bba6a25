"""The settled form of a call: inputs rounded, options resolved, and only what the subject claims."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.samples import Sample, unmet
from ..errors import SpecError, UsageError
from ..execution.calling import Call
from ..execution.limits import allows
from ..language.scopes import Values
from ..mechanisms.definition import sizes_of
from ..numerics import budget
from ..numerics.codes import CODES, stored_as
from ..numerics.drawn import Drawn
from ..numerics.formats import KINDS
from ..numerics.numbers import Number, value
from ..numerics.truths import Truth
from ..subjects.claims import Claims
from .bench import Bench


class Declined(Exception):  # noqa: N818 - an answer
    """The subject does not claim what a call asks for."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A call as a subject will see it: every input rounded, every option resolved."""

    values: Mapping[str, Any]
    errors: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """What rounding moved, for inputs that a law computed; the definition is asked about what was meant."""
    key: tuple[Any, ...] = ()
    """Equal for equal calls; empty for the case itself."""
    calls: dict[tuple[Any, ...], tuple[Claims, Call]] = field(default_factory=dict, repr=False, compare=False)
    """The calls that it has come to under some claims, which subjects with the same claims share."""
    shapes: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict, repr=False, compare=False)
    """The shapes of outputs that were asked for, by mechanism and name."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds beside the arrays of the case itself."""
        replaced = [self.values[name] for name, *_ in self.key] + [*self.errors.values()]
        return sum(x.nbytes for x in replaced if isinstance(x, np.ndarray))


def settle(bench: Bench, sample: Sample, replaced: Mapping[str, Any]) -> Settled:
    """The call with some inputs and options replaced."""
    values, errors, key = dict(sample.values), {}, []
    for name, x in replaced.items():
        plain = _plain(bench, sample, name, x, errors)
        if same(plain, sample.values[name]) and name not in errors:
            continue
        values[name] = plain
        key.append((name, _digest(plain), _digest(errors.get(name))))
    return Settled(values, errors, tuple(sorted(key)))


def _plain(bench: Bench, sample: Sample, name: str, x: Any, errors: dict[str, NDArray[np.float64]]) -> Any:
    """One input or option as it is passed; what rounding moved is noted in `errors`."""
    m = bench.mechanism
    if isinstance(x, Truth):
        if not np.array_equal(x.can, x.must):
            raise SpecError(f"{name} cannot be replaced by an undecided boolean")
        return np.asarray(x.must)
    plain = m.as_drawn(name, value(x))
    if name in m.required and m.dtypes.get(name) in KINDS:
        plain = _whole_numbers(plain, name)
    if name not in m.inputs or not isinstance(plain, np.ndarray) or plain.dtype.kind != "f":
        single = isinstance(plain, np.generic | np.ndarray) and np.ndim(plain) == 0
        return plain.item() if single and name not in m.required else plain
    near = stored_as(plain, m.dtype_of(name, bench.dtype, sample.values))
    moved = np.abs(np.where(np.isfinite(near), plain - near, 0.0))
    if isinstance(x, Number):
        moved = moved + x.radius
    if np.any(moved):
        errors[name] = moved
    return near


def claimed(bench: Bench, sample: Sample, settled: Settled, *, poisoned: bool = False, wrong: bool = False) -> Call:
    """The call in terms of what the subject claims; `Declined` where it claims too little.

    One that is `wrong` is to be refused, whatever the subject requires of those that it takes.
    """
    claims = bench.subject.claims
    key = (id(claims), bench.mechanism.name, bench.dtype, bench.device, sample.layout, poisoned, wrong)
    known = settled.calls.get(key)
    if known is None:  # which keeps the claims, so that no others have their number
        known = settled.calls[key] = (claims, _claimed(bench, sample, settled, poisoned=poisoned, wrong=wrong))
    return known[1]


def _claimed(bench: Bench, sample: Sample, settled: Settled, *, poisoned: bool, wrong: bool) -> Call:
    claims, m = bench.subject.claims, bench.mechanism
    inputs, options = {}, {}
    for name in m.inputs:
        x = settled.values[name]
        if name not in m.required and not isinstance(x, np.ndarray | Drawn):
            if same(x, m.defaults.get(name)):
                continue
            x = np.full((1, 1), x)
        if name not in m.required and name not in claims.names:
            raise Declined(f"does not take {name}")
        if isinstance(x, np.ndarray) and m.dtype_of(name, bench.dtype, settled.values) in CODES:
            x = x.astype(float)  # it is passed in that dtype, whether or not it is computed with as integers
        inputs[name] = x
    for name in m.options:
        x = settled.values[name]
        if name in claims.fixed and not same(x, claims.fixed[name]):
            raise Declined(f"takes {name} = {claims.fixed[name]} only")
        if name in m.typing and name not in claims.names:
            continue  # the arrays show it
        at_default = name in m.defaults and same(x, m.defaults[name])
        if at_default and name not in claims.always:
            continue
        if name not in claims.names and name not in claims.fixed:
            raise Declined(f"does not take {name}")
        if name in claims.names:
            options[name] = m.passed(name, x)
    if (claims.limits or claims.requires) and settled.key:
        _check_limits(bench, settled, wrong=wrong)
    dtypes = _own_dtypes(bench, settled, (*inputs, *m.outputs)) if m is not m.stating or m.typing else {}
    return Call(inputs, options, bench.dtype, bench.device, sample.layout, poisoned, dtypes)


def _own_dtypes(bench: Bench, settled: Settled, names: Iterable[str]) -> dict[str, str]:
    """The dtypes of arrays that an option says, or that differ in a further mechanism from the operator's own."""
    m, stated = bench.mechanism, bench.mechanism.stating
    found = {name: m.dtype_of(name, bench.dtype, settled.values) for name in names}
    return {name: dtype for name, dtype in found.items() if dtype != stated.dtype_of(name, bench.dtype)}


def _check_limits(bench: Bench, settled: Settled, *, wrong: bool) -> None:
    """`Declined` for a call beyond the declared limits, or one that does not meet the declared conditions."""
    claims, m = bench.subject.claims, bench.mechanism
    found = {**settled.values, **sizes_of(m, settled.values)} if claims.limits else {}
    for name, allowed in claims.limits.items():
        if name in found and not allows(allowed, found[name]):
            raise Declined(f"takes no {name} = {found[name]}")
    if wrong or not claims.requires:
        return
    found = found or {**settled.values, **sizes_of(m, settled.values)}
    try:
        with np.errstate(all="ignore"), budget.metered():
            lacking = unmet(claims, Values(found, bench.dtype))
    except UsageError as error:  # a law may ask for shapes that a condition has nothing to say of
        raise Declined(str(error)) from None
    if lacking is not None:
        raise Declined(f"requires {lacking.text}")


def _whole_numbers(x: Any, name: str) -> NDArray[Any]:
    """An input of integers, whatever an expression made of it."""
    plain = np.asarray(x)
    if plain.dtype.kind != "f":
        return plain
    if not np.array_equal(plain, np.rint(plain)):
        raise SpecError(f"{name} is replaced by what are not integers")
    return plain.astype(np.int64)


def same(x: Any, y: Any) -> bool:
    """Whether two values are one and the same, booleans and numbers told apart."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        both = isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
        return both and x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    return isinstance(x, bool) == isinstance(y, bool) and (x == y)


def _digest(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    return x.shape, hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=12).digest()
