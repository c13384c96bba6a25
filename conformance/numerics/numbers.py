"""Numbers with bounds: the rounding error that a grade of precision allows.

A number is a float64 value together with

* `worst`, a bound on the error in the worst case (first order, to nearest);
* `variance`, that of rounding errors which are independent between entries: it adds as squares do, after
  Higham and Mary (SIAM J. Sci. Comput. 41(5), 2019);
* `shared`, the size (as of a standard deviation) of errors that entries along an axis have in common: it adds linearly.
  Without it the square-root rule is wrong on structured inputs, such as ties and constant rows.

Its `radius` is min(worst, K * (sqrt(variance) + shared)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from .budget import broadcast
from .codings import Coded
from .formats import Format, all_held, holds
from .grades import FP64, Grade
from .products import distinct
from .products import product as plain_product
from .truths import Truth, every, some

K = 6.0
"""Standard deviations in a statistical bound; the most that correct implementations were seen to need is 2.4."""

MANY = 1 << 16
"""Entries from which on an array of booleans is dear."""

Array = Any
"""A float64 array, or the float 0.0 for an error that is absent."""


def absent(part: Array) -> bool:
    """Whether an error is nowhere: represented by the float 0.0, so that nothing is computed for it."""
    return type(part) is float


def finite(x: Array) -> Array:
    """`x` with zeros for what is infinite or not a number: such a value has no rounding error."""
    if all_finite(x):
        return x
    return np.where(np.isfinite(x), x, 0.0)


def all_finite(x: Array) -> bool:
    """Whether all entries are finite; of many, their sum says so in one pass, unless it is not finite itself."""
    if np.size(x) > MANY and np.isfinite(np.add.reduce(x, axis=None)):
        return True
    return every(np.isfinite(x))


class Number:
    """An error-carrying array. Errors broadcast against the value; the grade says how operations round."""

    __slots__ = ("grade", "held", "shared", "value", "variance", "worst")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        value: Any,
        worst: Array = 0.0,
        variance: Array = 0.0,
        shared: Array = 0.0,
        *,
        grade: Grade = FP64,
        held: bool = False,
    ) -> None:
        """`held` says that the entries are already in the format that factors of a product are rounded to."""
        self.value: Any = value if isinstance(value, np.ndarray) else np.asarray(value, float)
        self.worst, self.variance, self.shared, self.grade, self.held = worst, variance, shared, grade, held

    @classmethod
    def within(cls, value: Any, radius: Array, *, grade: Grade = FP64) -> Number:
        """A number known to lie within `radius` of a value, and nothing more."""
        radius = np.asarray(radius) if absent(radius) and radius else radius
        return cls(value, radius, 0.0, radius if absent(radius) else radius / K, grade=grade)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def nbytes(self) -> int:
        """The bytes of the value and its errors, as if none of them were broadcast."""
        size = self.value.nbytes
        for part in (self.worst, self.variance, self.shared):
            if type(part) is not float:
                size += part.nbytes
        return size

    @property
    def exact(self) -> bool:
        return absent(self.worst)

    @property
    def radius(self) -> Any:
        """What rounding may have done to each entry, under the statistical model."""
        if absent(self.worst):
            return 0.0
        likely = K * (self.shared if absent(self.variance) else np.sqrt(self.variance) + self.shared)
        return np.minimum(self.worst, likely)

    def map(self, f: Callable[[Any], Any]) -> Number:
        """The entries rearranged by `f`, which only moves them."""
        if self.exact:
            return Number(f(self.value), grade=self.grade, held=self.held)
        parts = [p if absent(p) else f(self.full(p)) for p in (self.worst, self.variance, self.shared)]
        return Number(f(self.value), *parts, grade=self.grade, held=self.held)

    def full(self, part: Array) -> Any:
        """An error in the shape of the value."""
        shape = self.value.shape
        return part if getattr(part, "shape", None) == shape else np.broadcast_to(part, shape)

    def __getitem__(self, index: Any) -> Number:
        return self.map(lambda part: part[index])

    # Arithmetic. Every operation passes errors on by its slope and adds the rounding of its own result.

    def __neg__(self) -> Number:
        return Number(-self.value, self.worst, self.variance, self.shared, grade=self.grade)

    def __abs__(self) -> Number:
        return Number(np.abs(self.value), self.worst, self.variance, self.shared, grade=self.grade)

    def __add__(self, other: Any) -> Number:
        x, y = aligned(self, other)
        return made(x.value + y.value, x.grade, (x, 1.0), (y, 1.0))

    def __sub__(self, other: Any) -> Number:
        x, y = aligned(self, other)
        return made(x.value - y.value, x.grade, (x, 1.0), (y, 1.0))

    def __mul__(self, other: Any) -> Number:
        x, y = aligned(self, other)
        if x is y:
            slopes: list[tuple[Number, Any]] = [(x, 2 * np.abs(x.value))]
        else:
            slopes = [(a, np.abs(b.value)) for a, b in ((x, y), (y, x)) if not absent(a.worst)]
        result = made(x.value * y.value, x.grade, *slopes)
        if not (absent(x.worst) or absent(y.worst)):  # both may err at once
            result.worst = result.worst + x.worst * y.worst
            result.shared = result.shared + x.radius * y.radius / K
        return result

    def __truediv__(self, other: Any) -> Number:
        x, y = aligned(self, other)
        quotient = x.value / y.value
        if x.exact and y.exact:
            return made(quotient, x.grade)
        divisor = np.abs(y.value)
        if not y.exact:  # the slope is taken at the smallest divisor there may be
            divisor = np.maximum(divisor - y.radius, 1e-30 * divisor)
        slopes = [] if x.exact else [(x, 1 / divisor)]
        return made(quotient, x.grade, *slopes, *([] if y.exact else [(y, np.abs(quotient) / divisor)]))

    def __pow__(self, other: Any) -> Number:
        x, y = aligned(self, other)
        power = np.power(x.value, y.value)
        by_base = np.abs(y.value * np.power(steepest(x, y.value < 1), y.value - 1))
        by_exponent = 0.0 if y.exact else np.abs(power * np.log(np.abs(x.value)))
        simple = np.isin(y.value, (1.0, 2.0, 0.5)) if y.exact else False
        roundings = np.where(y.value == 0, 0.0, np.where(simple, 1.0, 8.0))  # x ** 0 is 1 in every arithmetic
        return made(power, x.grade, (x, by_base), (y, by_exponent), roundings=roundings)

    def __matmul__(self, other: Any) -> Number:
        x, y = self, number(other, self.grade)
        return product(x, y)

    def __radd__(self, other: Any) -> Number:
        return self + other

    def __rmul__(self, other: Any) -> Number:
        return self * other

    def __rsub__(self, other: Any) -> Number:
        return number(other, self.grade) - self

    def __rtruediv__(self, other: Any) -> Number:
        return number(other, self.grade) / self

    def __rpow__(self, other: Any) -> Number:
        return number(other, self.grade) ** self

    def __rmatmul__(self, other: Any) -> Number:
        return number(other, self.grade) @ self

    # Comparison: three-valued. NaN equals NaN here; whether a NaN may be there at all is for the judge.

    def __eq__(self, other: Any) -> Truth:  # type: ignore[override]
        x, y = self, number(other, self.grade)
        a, b = x.value, y.value
        same = a == b
        if not every(same):
            same = same | (np.isnan(a) & np.isnan(b))
        return _compared(x, y, same, np.abs(a - b))

    def __ne__(self, other: Any) -> Truth:  # type: ignore[override]
        return ~(self == other)

    def __le__(self, other: Any) -> Truth:
        x, y = self, number(other, self.grade)
        return _compared(x, y, x.value <= y.value, x.value - y.value)

    def __lt__(self, other: Any) -> Truth:
        x, y = self, number(other, self.grade)
        return _compared(x, y, x.value < y.value, x.value - y.value)

    def __ge__(self, other: Any) -> Truth:
        x, y = self, number(other, self.grade)
        return _compared(x, y, x.value >= y.value, y.value - x.value)

    def __gt__(self, other: Any) -> Truth:
        x, y = self, number(other, self.grade)
        return _compared(x, y, x.value > y.value, y.value - x.value)


def number(x: Any, grade: Grade) -> Number:
    """`x` as a number; a float that the grade's arithmetic cannot hold carries its own rounding."""
    if type(x) is Number:
        return x
    if isinstance(x, float) and not holds(x, grade.arithmetic):
        return Number.within(x, np.asarray(grade.arithmetic.unit * abs(x)), grade=grade)
    return Number(x, grade=grade)


def value(x: Any) -> Any:
    """The nominal value of a number; anything else as it is."""
    return x.value if isinstance(x, Number) else x


def aligned(x: Number, other: Any) -> tuple[Number, Number]:
    """Two numbers for an operation entry by entry: an independent error that is broadcast becomes a shared one."""
    y = number(other, x.grade)
    if x.value.shape == y.value.shape or (absent(x.variance) and absent(y.variance)):
        return x, y
    shape = broadcast(x.value.shape, y.value.shape)
    return shared_along(x, shape), shared_along(y, shape)


def shared_along(x: Number, shape: tuple[int, ...]) -> Number:
    """`x` about to be broadcast to `shape`: what its entries err, whole rows of the result will err alike."""
    return x if x.value.shape == shape else common(x)


def common(x: Number) -> Number:
    """`x` about to be copied: an independent error becomes one that the copies share."""
    if absent(x.variance):
        return x
    return Number(x.value, x.worst, 0.0, x.shared + np.sqrt(x.variance), grade=x.grade)


def carried(x: Number, slope: Any) -> tuple[Array, Array, Array]:
    """The three errors of `x` through an operation of that slope."""
    if absent(x.worst):
        return 0.0, 0.0, 0.0
    if type(slope) is float and slope == 1.0:
        return x.worst, x.variance, x.shared
    slope = finite(slope)
    return (
        x.worst * slope,
        x.variance if absent(x.variance) else x.variance * (slope * slope),
        x.shared if absent(x.shared) else x.shared * slope,
    )


def steepest(x: Number, towards_zero: Any = True) -> Any:
    """The size at which a power is steepest, of those that `x` may have: far from zero, or like a root towards it.

    Where a root may start at zero itself, the size is that at which its slope gives its value.
    """
    size = np.abs(x.value)
    if x.exact:
        return size
    return np.where(towards_zero, np.maximum(size - x.radius, x.radius / 4), size + x.radius)


def made(result: Any, grade: Grade, *terms: tuple[Number, Any], roundings: Any = 1.0, extra: Array = 0.0) -> Number:
    """A result with the errors of its terms, each by its slope, and its own `roundings` in the grade's arithmetic.

    `extra` is a further error, counted as shared.
    """
    worst, variance, shared = extra, 0.0, extra if absent(extra) else extra / K
    for term, slope in terms:
        if not absent(term.worst):
            w, v, s = carried(term, slope)
            worst, variance, shared = _sum(worst, w), _sum(variance, v), _sum(shared, s)
    return settled(result, grade, worst, variance, shared, roundings)


def _sum(x: Array, y: Array) -> Array:
    """The sum of two errors, of which most are absent."""
    return y if type(x) is float and not x else x if type(y) is float and not y else x + y


def settled(result: Any, grade: Grade, worst: Array, variance: Array, shared: Array, roundings: Any = 1.0) -> Number:
    """A result after the rounding of its last operation, and of its storage where the grade stores every result."""
    own: Any = flushed(grade)
    if type(roundings) is not float or roundings:
        own = (roundings * grade.arithmetic.unit) * finite(np.abs(result)) + own
    worst, variance = _sum(worst, own), _sum(variance, own * own / 3)
    if grade.stored is not None:
        kept = _storing(result, worst, grade.stored)
        worst, shared = worst + kept, shared + kept / K
    return Number(result, worst, variance, shared, grade=grade)


def flushed(grade: Grade) -> float:
    """What an operation may lose to underflow: results below the least normal number may be flushed to zero."""
    return 2.0**grade.arithmetic.least


def _storing(result: Any, worst: Array, stored: Format) -> Any:
    """The error of rounding to `stored`, without bound where the result may overflow it."""
    size = np.abs(result)
    kept = stored.unit * finite(size) + stored.tiny
    return np.where(np.isfinite(size) & (size + worst > stored.largest), np.inf, kept)


def operand_error(x: Number, entries: Any = None) -> tuple[float, Any]:
    """The unit to which a factor of a product is rounded first, and that of underflow; zero if the format holds it.

    Where every intermediate is stored, the factor may have been scaled before, and is rounded in any case.
    `entries` are all that are in it, if some are there more than once.
    """
    fmt, entries = x.grade.operand, x.value if entries is None else entries
    if fmt is None or x.held or (x.exact and x.grade.stored is None and all_held(np.asarray(entries, float), fmt)):
        return 0.0, 0.0
    return fmt.unit, fmt.tiny


def product(x: Number, y: Number) -> Number:
    """The matrix product: n roundings of the sum of sizes in the worst case, their square root in the likely one."""
    grade, n = x.grade, x.value.shape[-1]
    u = grade.arithmetic.unit
    left, right = np.asarray(x.value, float), np.asarray(y.value, float)  # integers are multiplied slowly
    right = distinct(right, left.shape)
    size_x, size_y = finite(np.abs(left)), finite(np.abs(right))
    size = plain_product(size_x, size_y)
    worst: Array = (n * u) * size
    variance: Array = (n / 3 * u * u) * size * size
    shared: Array = 0.0
    if grade.operand is not None and grade.factors is None:
        unit = operand_error(x)[0] + operand_error(y, right)[0]
        if unit:
            worst = worst + unit * size
            shared = unit / np.sqrt(3) * np.sqrt(plain_product(size_x**2, size_y**2))
    if grade.factors is not None:
        coded = Coded.of(finite(left), finite(right), grade.factors)
        worst = (
            worst
            + plain_product(coded.left, coded.size_right)
            + plain_product(coded.size_left + coded.left, coded.right)
        )
        variance = variance + plain_product(coded.size_left**2, coded.alone)
        shared = shared + np.sqrt(
            plain_product(coded.of_left, coded.size_right**2) + plain_product(coded.size_left**2, coded.common)
        )
    for a, b, times in ((x, size_y, _on_the_left), (y, size_x, _on_the_right)):
        if not a.exact:
            worst = worst + times(a.full(a.worst), b)
            variance = variance + (0.0 if absent(a.variance) else times(a.full(a.variance), b * b))
            shared = shared + (0.0 if absent(a.shared) else times(a.full(a.shared), b))
    return settled(plain_product(left, right), grade, worst, variance, shared, roundings=0.0)


def _on_the_left(error: Any, size: Any) -> Any:
    return plain_product(error, size)


def _on_the_right(error: Any, size: Any) -> Any:
    return plain_product(size, error)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison as it was made: both sides, the bound, and the error in units of the bound."""

    left: Number
    right: Number
    radius: Any
    units: Any


_RECORD: ContextVar[list[Comparison] | None] = ContextVar("record", default=None)


@contextmanager
def recording() -> Iterator[list[Comparison]]:
    """Keep the comparisons of error-carrying numbers that are made in the body."""
    record: list[Comparison] = []
    outer = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(outer)


def _compared(x: Number, y: Number, holds_nominally: Any, gap: Any) -> Truth:
    radius, record = x.radius + y.radius, _RECORD.get()
    if absent(radius):
        if record is not None:
            record.append(Comparison(x, y, 0.0, np.where(holds_nominally, 0.0, np.inf)))
        return Truth(holds_nominally, holds_nominally)
    units = np.where(holds_nominally, 0.0, gap / radius)
    decided = (np.isnan(gap) & np.isfinite(radius)) | (radius == 0)
    unknown = np.isnan(units)
    if some(unknown):
        units = np.where(unknown, np.where(decided, np.inf, 0.0), units)
    if record is not None:
        record.append(Comparison(x, y, radius, units))
    sure = decided | (np.abs(gap) > radius)
    return Truth(holds_nominally | (units <= 1), holds_nominally & sure, units)
