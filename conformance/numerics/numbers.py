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

from collections.abc import Callable
from typing import Any

import numpy as np

from .budget import broadcast
from .comparing import compared
from .formats import Format, holds
from .grades import FP64, Grade
from .parts import Array, K, absent, added, finite
from .product_errors import product_with_errors
from .truths import Truth, every


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
        result, *errors = product_with_errors(x, y)
        return settled(result, x.grade, *errors, roundings=0.0)

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
        return compared(x, y, same, np.abs(a - b))

    def __ne__(self, other: Any) -> Truth:  # type: ignore[override]
        return ~(self == other)

    def __le__(self, other: Any) -> Truth:
        x, y = self, number(other, self.grade)
        return compared(x, y, x.value <= y.value, x.value - y.value)

    def __lt__(self, other: Any) -> Truth:
        x, y = self, number(other, self.grade)
        return compared(x, y, x.value < y.value, x.value - y.value)

    def __ge__(self, other: Any) -> Truth:
        x, y = self, number(other, self.grade)
        return compared(x, y, x.value >= y.value, y.value - x.value)

    def __gt__(self, other: Any) -> Truth:
        x, y = self, number(other, self.grade)
        return compared(x, y, x.value > y.value, y.value - x.value)


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
            worst, variance, shared = added(worst, w), added(variance, v), added(shared, s)
    return settled(result, grade, worst, variance, shared, roundings)


def settled(result: Any, grade: Grade, worst: Array, variance: Array, shared: Array, roundings: Any = 1.0) -> Number:
    """A result after the rounding of its last operation, and of its storage where the grade stores every result."""
    own: Any = flushed(grade)
    if type(roundings) is not float or roundings:
        own = (roundings * grade.arithmetic.unit) * finite(np.abs(result)) + own
    worst, variance = added(worst, own), added(variance, own * own / 3)
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
