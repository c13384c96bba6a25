"""The functions of the language: checked arguments on top of the primitives.

Every function takes and returns plain arrays, error-carrying numbers or truths.
A single number or truth counts as constant along every axis, so rearranging it returns it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SpecError
from ..numerics import primitives
from ..numerics.budget import CARRIED, OPERATION, WHOLE_NUMBER, charge, charge_product, joined_shape, spend
from ..numerics.grades import FP64, Grade
from ..numerics.numbers import Number, absent, common, number, value
from ..numerics.operations import claimed
from ..numerics.streams import Stream
from ..numerics.truths import Truth, truth


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language. `graded` prepares its arguments where a precision is claimed."""

    name: str
    call: Callable[..., Any]
    signature: inspect.Signature
    says: str
    graded: Callable[[Any, Grade | None], Any] | None = None
    contextual: bool = False
    """Whether the environment is passed first."""
    work: int = 1
    """Units of work for each entry of an argument."""

    @property
    def required(self) -> int:
        """How many arguments have no default."""
        return sum(p.default is inspect.Parameter.empty for p in self.signature.parameters.values())

    @property
    def usage(self) -> str:
        return f"{self.name}({', '.join(map(_parameter, self.signature.parameters.values()))})"


def _parameter(p: inspect.Parameter) -> str:
    if p.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"{p.name}, ..."
    if p.default is inspect.Parameter.empty:
        return p.name
    shown = {True: "true", False: "false", None: "none"}.get(p.default, p.default)
    return f"{p.name} = {shown}"


FUNCTIONS: dict[str, Function] = {}
RENAMED = {"order": "argsort", "take": "gather"}
"""What functions were called before."""


def _rounds(x: Any, grade: Grade | None) -> Any:
    """Under a grade, what a function computes is rounded even where its argument is exact."""
    return x if grade is None else number(x, grade)


def _rounds_fractions(x: Any, grade: Grade | None) -> Any:
    """As `_rounds`, but whole numbers are reckoned with exactly."""
    if grade is None or isinstance(x, int) or getattr(x, "dtype", None) == np.int64:
        return x
    return number(x, grade)


def _function(
    name: str = "",
    *,
    graded: Callable[[Any, Grade | None], Any] | None = None,
    contextual: bool = False,
    says: str = "",
    work: int = 1,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        full = inspect.signature(f)
        parameters = list(full.parameters.values())[1 if contextual else 0 :]
        label = name or f.__name__.strip("_")
        sentence = says or " ".join((f.__doc__ or "").split())
        FUNCTIONS[label] = Function(label, f, full.replace(parameters=parameters), sentence, graded, contextual, work)
        return f

    return register


# Arguments


def whole(n: Any) -> int:
    """A whole number out of an expression, within the limit."""
    if type(n) is int and -WHOLE_NUMBER <= n <= WHOLE_NUMBER:
        return n
    n = value(n)
    if isinstance(n, bool | np.bool_ | str | Truth) or n is None or np.ndim(n):
        raise SpecError(f"{n!r} is not a whole number")
    if not math.isfinite(n) or int(n) != n or abs(n) > WHOLE_NUMBER:
        raise SpecError(f"{n!r} is not a whole number of at most {WHOLE_NUMBER:,}")
    return int(n)


def dimensions(shape: tuple[Any, ...], work: int = 1) -> tuple[int, ...]:
    """A shape out of an expression, accounted for with so much work for each entry."""
    result = tuple(max(whole(n), 0) for n in shape)
    charge(math.prod(result), work)
    return result


def shape_of(x: Any) -> tuple[int, ...]:
    return getattr(x, "shape", ())


def rearranged(x: Any, move: Callable[[Any], Any]) -> Any:
    """`x` with its entries moved; single values are constant along every axis."""
    if shape_of(x) == ():
        return x
    return x.map(move) if isinstance(x, (Number, Truth)) else move(np.asarray(x))


def _grow(x: Any, times: int) -> None:
    charge(math.prod(shape_of(x)) * max(times, 1))


# Entry by entry


@_function("abs")
def _abs(x: Any) -> Any:
    """The size without the sign."""
    return abs(x)


for _name, _says in (
    ("exp", "The exponential."),
    ("log", "The natural logarithm."),
    ("sqrt", "The square root."),
    ("sin", "The sine."),
    ("cos", "The cosine."),
    ("tanh", "The hyperbolic tangent."),
    ("sigmoid", "1 / (1 + exp(-x))."),
):
    _function(_name, graded=_rounds, says=_says, work=3)(getattr(primitives, _name))


@_function("round")
def _round(x: Any) -> Any:
    """The nearest whole number, ties to even; in doubt where rounding may cross a half."""
    return primitives.rint(x)


@_function()
def finite(x: Any) -> Any:
    """Truths: neither infinite nor NaN."""
    return np.isfinite(value(x))


@_function()
def where(c: Any, x: Any, y: Any) -> Any:
    """From x where c is true, else from y; where c is undecided, the distance of both is an error."""
    shape = joined_shape(shape_of(claimed(c)), shape_of(x), shape_of(y))
    if isinstance(c, (bool, np.bool_)):
        chosen = x if c else y
        if shape_of(chosen) == shape:
            return chosen
    return primitives.where(c, x, y)


@_function(contextual=True, work=8)
def stored(env: Any, x: Any) -> Any:
    """One more rounding to the dtype under test."""
    return primitives.stored(x, env.dtype, env.grade) if env.grade is not None else x


@_function(contextual=True)
def unclaimed(env: Any, x: Any) -> Any:
    """x, of which nothing is claimed: no comparison with it is ever decided."""
    return x if env.grade is None else Number.within(value(x), np.full(shape_of(x), np.inf), grade=env.grade)


# Along an axis


def _axis(axis: Any) -> int:
    return -1 if axis is None else whole(axis)


@_function("sum", graded=_rounds_fractions)
def _sum(x: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The sum along an axis."""
    return primitives.total(_reducible(x), _axis(axis), bool(keep))


@_function(graded=_rounds_fractions)
def sum_like(x: Any, y: Any) -> Any:
    """The sum along the axes that y has not, or has once, in the shape of y: what broadcasting y takes back."""
    whole_shape, shape = shape_of(x), shape_of(y)
    if joined_shape(whole_shape, shape) != whole_shape:
        raise SpecError(f"an array of shape {shape} is not broadcast to {whole_shape}")
    x = _reducible(x)
    charge(math.prod(whole_shape), len(whole_shape) * (CARRIED if isinstance(x, Number) else 1))
    for _ in whole_shape[len(shape) :]:
        x = primitives.total(x, 0)
    for axis, (n, wanted) in enumerate(zip(shape_of(x), shape, strict=True)):
        if n != wanted:
            x = primitives.total(x, axis, keep=True)
    return x


@_function(graded=_rounds)
def mean(x: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The sum divided by the number of entries."""
    return primitives.mean(_reducible(x), _axis(axis), bool(keep))


@_function("max")
def _max(x: Any, *y: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The greatest entry along an axis; of two arguments, the greater, entry by entry."""
    return _extreme(np.max, x, y, axis, keep)


@_function("min")
def _min(x: Any, *y: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The least entry along an axis; of two arguments, the lesser, entry by entry."""
    return _extreme(np.min, x, y, axis, keep)


def _extreme(f: Callable[..., Any], x: Any, y: tuple[Any, ...], axis: Any, keep: Any) -> Any:
    match y:
        case ():
            return primitives.extreme(f, _reducible(x), _axis(axis), bool(keep))
        case (other,):
            joined_shape(shape_of(x), shape_of(other))
            return primitives.extreme_of_two(f, x, other)
    raise SpecError("max and min take one array or two")


def _reducible(x: Any) -> Any:
    if isinstance(x, Truth):
        return primitives.where(x, 1.0, 0.0)
    return x if isinstance(x, Number) else np.asarray(x)


@_function("all")
def _all(x: Any, axis: Any = None) -> Any:
    """Whether all entries are true: of everything, or along an axis."""
    return _quantified(np.all, x, axis)


@_function("any")
def _any(x: Any, axis: Any = None) -> Any:
    """Whether some entry is true: of everything, or along an axis."""
    return _quantified(np.any, x, axis)


def _quantified(reduce: Callable[..., Any], x: Any, axis: Any) -> Any:
    if shape_of(claimed(x)) == ():
        return x
    along = None if axis is None else whole(axis)
    return x.over(reduce, along) if isinstance(x, Truth) else reduce(x, axis=along)


@_function(graded=_rounds_fractions)
def cumsum(x: Any, axis: Any = -1) -> Any:
    """Running sums along an axis."""
    return primitives.cumulated(_reducible(x), _axis(axis))


@_function(graded=_rounds)
def shift(x: Any, axis: Any = -1) -> Any:
    """Less its own maximum along an axis (0 for a row of minus infinities), free of the maximum's error."""
    return primitives.shift(x, _axis(axis))


@_function(graded=_rounds)
def logsumexp(x: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The logarithm of the sum of the exponentials."""
    return primitives.logsumexp(x, _axis(axis), bool(keep))


@_function(graded=_rounds)
def average(w: Any, x: Any, axis: Any = None) -> Any:
    """The sum of w x over that of w, rows of w against rows of x; with axis, entry by entry; 0 where no weight is."""
    a, b = shape_of(w), shape_of(x)
    if axis is None and (len(a) < 2 or len(b) < 2 or a[-1] != b[-2]):
        raise SpecError(f"average takes weights [..., q, n] and values [..., n, d], not {a} and {b}")
    carried = isinstance(w, Number) or isinstance(x, Number)
    if axis is None:
        rows, n = math.prod(joined_shape(a[:-2], b[:-2])) * a[-2], a[-1]
        charge(rows * max(b[-1], n), 8 if carried else 2)
        charge_product(rows * n * b[-1], carried=carried)
    else:
        shape = joined_shape(a, b)
        n = shape[whole(axis)] if shape else 1
        rows = math.prod(shape) // max(n, 1)
        charge(rows * n, 8 if carried else 2)
    if carried:
        spend(primitives.multiplicity_work(rows * n, n))
    return primitives.average(w, x, None if axis is None else whole(axis))


# Selection


@_function(work=10)
def largest(x: Any, k: Any, axis: Any = -1) -> Any:
    """Truths: among the k largest along an axis; of equal ones the earlier."""
    return primitives.largest(x, whole(k), _axis(axis))


@_function(work=10)
def above(x: Any, axis: Any = -1) -> Any:
    """The sum of the entries that come before this one in falling order."""
    charge(math.prod(shape_of(x)) * shape_of(x)[_axis(axis)])
    return primitives.above(x, _axis(axis))


@_function(work=15)
def argsort(x: Any, axis: Any = -1) -> Any:
    """The indices in falling order; equal entries keep theirs, and in doubt are those that rounding may exchange."""
    return primitives.order(x, _axis(axis))


# Shape


@_function()
def size(x: Any, axis: Any = -1) -> int:
    """The length along an axis; 1 for a single number."""
    return shape_of(x)[whole(axis)] if shape_of(x) else 1


@_function()
def single(x: Any) -> bool:
    """Whether x is one number or truth, and not an array."""
    return shape_of(x) == ()


@_function()
def transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    return rearranged(x, lambda t: np.swapaxes(t, -1, -2))


@_function()
def permute(x: Any, *axes: Any) -> Any:
    """The axes in another order."""
    return rearranged(x, lambda t: np.transpose(t, tuple(map(whole, axes))))


@_function()
def reshape(x: Any, *shape: Any) -> Any:
    """The same entries in another shape."""
    return rearranged(x, lambda t: np.reshape(t, tuple(map(whole, shape))))


@_function()
def repeat(x: Any, n: Any, axis: Any = -1) -> Any:
    """Every entry along an axis n times in a row."""
    n = whole(n)
    _grow(x, n)
    return x if n == 1 else rearranged(_alike(x), lambda t: np.repeat(t, max(n, 0), _axis(axis)))


@_function()
def tile(x: Any, n: Any, axis: Any = -1) -> Any:
    """The whole along an axis n times over."""
    n = whole(n)
    _grow(x, n)
    spend(max(n, 0) * OPERATION // 2)
    return x if n == 1 else rearranged(_alike(x), lambda t: np.concatenate([t] * n, _axis(axis)))


def _alike(x: Any) -> Any:
    """`x` about to be copied: copies err alike."""
    return common(x) if isinstance(x, Number) else x


@_function()
def concat(x: Any, y: Any, axis: Any = -1) -> Any:
    """x, and then y, along an axis."""
    charge(math.prod(shape_of(x)) + math.prod(shape_of(y)))
    if isinstance(x, Truth) or isinstance(y, Truth):
        a, b = truth(x), truth(y)
        return Truth(np.concatenate([a.can, b.can], _axis(axis)), np.concatenate([a.must, b.must], _axis(axis)))
    if not isinstance(x, Number) and not isinstance(y, Number):
        return np.concatenate([x, y], _axis(axis))
    grade = x.grade if isinstance(x, Number) else y.grade
    x, y = number(x, grade), number(y, grade)

    def joined(a: Any, b: Any) -> Any:
        return 0.0 if absent(a) and absent(b) else np.concatenate([_filled(x, a), _filled(y, b)], _axis(axis))

    parts = (joined(x.worst, y.worst), joined(x.variance, y.variance), joined(x.shared, y.shared))
    return Number(np.concatenate([x.value, y.value], _axis(axis)), *parts, grade=grade)


def _filled(x: Number, part: Any) -> Any:
    return np.broadcast_to(part, x.shape)


@_function()
def gather(x: Any, i: Any, axis: Any = -1) -> Any:
    """The entries at the given indices along an axis; nothing is known of one whose index is in doubt."""
    index = np.asarray(value(i))
    if not np.array_equal(index.astype(np.int64), index):
        raise SpecError("an index is not a whole number")
    if shape_of(x):
        charge(math.prod(shape_of(x)) // max(shape_of(x)[_axis(axis)], 1) * index.size)
    if shape_of(x) == () or isinstance(x, Truth):
        return rearranged(x, lambda t: np.take(t, index.astype(np.int64), _axis(axis)))
    return primitives.taken(x, i, _axis(axis))


# Making


@_function("range")
def _range(a: Any, *b: Any) -> Any:
    """The whole numbers below a, or from a to below b."""
    if len(b) > 1:
        raise SpecError("range takes one number or two")
    low, high = (whole(a), whole(b[0])) if b else (0, whole(a))
    charge(max(high - low, 0))
    return np.arange(low, high, dtype=np.int64)


@_function()
def full(x: Any, *shape: Any) -> Any:
    """One number or truth in a shape."""
    measured = dimensions(shape)
    if isinstance(x, Number | Truth):
        return (common(x) if isinstance(x, Number) else x).map(lambda t: np.full(measured, t))
    return np.full(measured, x)


@_function()
def eye(n: Any) -> Any:
    """The identity matrix."""
    charge(whole(n) ** 2)
    return np.eye(whole(n))


@_function()
def noise(seed: Any, *shape: Any) -> Any:
    """Uniform numbers from 0 to 1, in a shape or in that of an array, for definitions of random outputs."""
    like = shape_of(shape[0]) if len(shape) == 1 else ()
    return Stream("noise", whole(seed)).uniform(dimensions(like or shape))


# Claims


@_function()
def identical(a: Any, b: Any) -> bool:
    """One truth: bit for bit the same everywhere."""
    if isinstance(a, Truth) or isinstance(b, Truth):
        raise SpecError("identical takes numbers; compare truths with ==")
    joined_shape(shape_of(a), shape_of(b))
    x, y = np.broadcast_arrays(value(a), value(b))
    return bool(np.all((x == y) | ((x != x) & (y != y))))


@_function()
def within(a: Any, b: Any, tolerance: Any) -> Any:
    """Closer than a declared tolerance, for claims without a derived bound."""
    joined_shape(shape_of(a), shape_of(b), shape_of(tolerance))
    gap = abs(number(a, FP64) - number(b, FP64))
    return gap.value <= value(tolerance)


@_function()
def counts(x: Any, n: Any, axis: Any = -1) -> Any:
    """How often each whole number below n stands along an axis; truths count as 0 and 1."""
    if isinstance(x, Truth) and np.any(x.can != x.must):
        raise SpecError("truths in doubt cannot be counted")
    plain, n = np.moveaxis(np.asarray(x.must if isinstance(x, Truth) else value(x)), _axis(axis), -1), whole(n)
    charge(plain.size * max(n, 1))
    *rows, _ = plain.shape
    places = plain.astype(np.int64)
    counted = (places == plain) & (places >= 0) & (places < n)
    first = n * np.arange(math.prod(rows)).reshape(*rows, 1)
    return np.bincount((first + places)[counted], minlength=n * math.prod(rows)).reshape(*rows, n)


@_function(contextual=True, work=5)
def likely(env: Any, counts: Any, chances: Any) -> Any:
    """False if the counts are too improbable with these chances or any within their bounds, by Chernoff's bound."""
    joined_shape(shape_of(counts), shape_of(chances))
    chances = number(chances, FP64)
    observed = np.asarray(value(counts), float)
    n = np.sum(observed, axis=-1, keepdims=True)
    share = np.divide(observed, n, out=np.zeros_like(observed), where=n > 0)
    radius = np.nan_to_num(chances.radius, nan=np.inf, posinf=np.inf)
    least, most = chances.value - radius, chances.value + radius
    expected = np.clip(np.clip(share, least, most), 0.0, 1.0)  # of the chances there may be, the closest
    surprise = _divergence(share, expected) + _divergence(1 - share, 1 - expected)
    return n * surprise <= math.log(2 * expected.size / env.false_alarm)


def _divergence(p: Any, q: Any) -> Any:
    return np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0) / np.maximum(q, 1e-300)), 0.0)
