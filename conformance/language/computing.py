"""The functions that compute: entry by entry, along an axis, or by rank."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SpecError
from ..numerics import averages, primitives, ranking, recurrences
from ..numerics.budget import CARRIED, charge, charge_product, joined_shape, spend
from ..numerics.grades import Grade
from ..numerics.numbers import Number, number, value
from ..numerics.operations import claimed
from ..numerics.truths import Truth
from .registry import Functions, along, shape_of, whole

FUNCTIONS = Functions()


def _rounds(x: Any, grade: Grade | None) -> Any:
    """Under a grade, what a function computes is rounded even where its argument is exact."""
    return x if grade is None else number(x, grade)


def _rounds_fractions(x: Any, grade: Grade | None) -> Any:
    """As `_rounds`, but integers are computed with exactly."""
    if grade is None or isinstance(x, int) or getattr(x, "dtype", None) == np.int64:
        return x
    return number(x, grade)


# Entry by entry


@FUNCTIONS("abs")
def _abs(x: Any) -> Any:
    """The absolute value."""
    return abs(x)


for _name, _says in (
    ("exp", "The exponential."),
    ("log", "The natural logarithm."),
    ("sqrt", "The square root."),
    ("sin", "The sine."),
    ("cos", "The cosine."),
    ("tanh", "The hyperbolic tangent."),
    ("erf", "The error function."),
    ("sigmoid", "1 / (1 + exp(-x))."),
):
    FUNCTIONS(_name, graded=_rounds, says=_says, work=3)(getattr(primitives, _name))


@FUNCTIONS("round")
def _round(x: Any) -> Any:
    """The nearest integer, ties to even; undecided where rounding may cross a half."""
    return primitives.rint(x)


@FUNCTIONS(work=4)
def significant(x: Any, digits: Any, least: Any) -> Any:
    """The nearest multiple of `least` with so many significant digits in base two, ties to even: codes of a format."""
    spacing = value(least)
    if not 1 <= whole(digits) <= 53 or np.ndim(spacing) or not 0 < float(spacing) < math.inf:
        raise SpecError("significant takes from 1 to 53 digits and a least number above zero")
    return primitives.significant(x, whole(digits), float(spacing))


@FUNCTIONS()
def finite(x: Any) -> Any:
    """Booleans: true where x is neither infinite nor NaN."""
    return np.isfinite(value(x))


@FUNCTIONS()
def where(c: Any, x: Any, y: Any) -> Any:
    """From x where c is true, else from y; where c is undecided, the distance between both is the error."""
    shape = joined_shape(shape_of(claimed(c)), shape_of(x), shape_of(y))
    if isinstance(c, (bool, np.bool_)):
        chosen = x if c else y
        if shape_of(chosen) == shape:
            return chosen
    return primitives.where(c, x, y)


@FUNCTIONS(contextual=True)
def either(env: Any, x: Any, y: Any) -> Any:
    """x, which may also be computed as y; the error is the larger one of both, plus their distance."""
    joined_shape(shape_of(x), shape_of(y))
    return x if env.grade is None else primitives.where(Truth(True, False), y, x)


@FUNCTIONS(contextual=True, work=8)
def stored(env: Any, x: Any) -> Any:
    """The array, rounded once to the dtype under test."""
    return primitives.stored(x, env.dtype, env.grade) if env.grade is not None else x


@FUNCTIONS(contextual=True)
def unclaimed(env: Any, x: Any) -> Any:
    """The array with an infinite bound: every comparison with it is undecided."""
    return x if env.grade is None else Number.within(value(x), np.full(shape_of(x), np.inf), grade=env.grade)


# Along an axis


@FUNCTIONS("sum", graded=_rounds_fractions)
def _sum(x: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The sum along an axis."""
    return primitives.total(_reducible(x), along(axis), bool(keep))


@FUNCTIONS(graded=_rounds_fractions)
def sum_like(x: Any, y: Any) -> Any:
    """The sum along the axes that y lacks or has with length 1, in the shape of y: the gradient of broadcasting y."""
    whole_shape, shape = shape_of(x), shape_of(y)
    if joined_shape(whole_shape, shape) != whole_shape:
        raise SpecError(f"an array of shape {shape} is not broadcast to {whole_shape}")
    x = _reducible(x)
    carried = isinstance(x, Number)
    charge(math.prod(whole_shape), len(whole_shape) * (CARRIED if carried else 1), carried=carried)
    for _ in whole_shape[len(shape) :]:
        x = primitives.total(x, 0)
    for axis, (n, wanted) in enumerate(zip(shape_of(x), shape, strict=True)):
        if n != wanted:
            x = primitives.total(x, axis, keep=True)
    return x


@FUNCTIONS(graded=_rounds)
def mean(x: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The sum divided by the number of entries."""
    return primitives.mean(_reducible(x), along(axis), bool(keep))


@FUNCTIONS("max")
def _max(x: Any, *y: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The largest entry along an axis; of two arguments, the larger, entry by entry."""
    return _extreme(np.max, x, y, axis, keep)


@FUNCTIONS("min")
def _min(x: Any, *y: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The smallest entry along an axis; of two arguments, the smaller, entry by entry."""
    return _extreme(np.min, x, y, axis, keep)


def _extreme(f: Callable[..., Any], x: Any, y: tuple[Any, ...], axis: Any, keep: Any) -> Any:
    match y:
        case ():
            return primitives.extreme(f, _reducible(x), along(axis), bool(keep))
        case (other,):
            joined_shape(shape_of(x), shape_of(other))
            return primitives.extreme_of_two(f, x, other)
    raise SpecError("max and min take one array or two")


def _reducible(x: Any) -> Any:
    if isinstance(x, Truth):
        return primitives.where(x, 1.0, 0.0)
    return x if isinstance(x, Number) else np.asarray(x)


@FUNCTIONS("all")
def _all(x: Any, axis: Any = None) -> Any:
    """Whether all entries are true, of the whole array or along an axis."""
    return _quantified(np.all, x, axis)


@FUNCTIONS("any")
def _any(x: Any, axis: Any = None) -> Any:
    """Whether any entry is true, of the whole array or along an axis."""
    return _quantified(np.any, x, axis)


def _quantified(reduce: Callable[..., Any], x: Any, axis: Any) -> Any:
    if shape_of(claimed(x)) == ():
        return x
    one = None if axis is None else whole(axis)
    return x.over(reduce, one) if isinstance(x, Truth) else reduce(x, axis=one)


@FUNCTIONS(graded=_rounds_fractions)
def cumsum(x: Any, axis: Any = -1) -> Any:
    """Running sums along an axis."""
    return primitives.cumulated(_reducible(x), along(axis))


@FUNCTIONS(graded=_rounds)
def scan(a: Any, b: Any, start: Any, kept: Any = None) -> Any:
    """The states of s = a @ s + b from start on, along the axis before the last two.

    With the factors that are kept of rows, where a also replaces some of them, they may be computed in chunks, too.
    """
    a, b, start = _reducible(a), _reducible(b), _reducible(start)
    first, second, third = shape_of(a), shape_of(b), shape_of(start)
    if len(first) < 3 or len(second) < 3 or len(third) < 2 or first[-1] != first[-2] or first[-1] != second[-2]:
        raise SpecError(f"no states go on by matrices of shape {first} with {second} added to them")
    if first[-3] != second[-3] or third[-2:] != second[-2:]:
        raise SpecError(f"matrices of shape {first} and {second} have no steps in common from {third} on")
    leading = joined_shape(first[:-3], second[:-3], third[:-2])
    steps, rows, columns = second[-3:]
    carried = any(isinstance(x, Number) for x in (a, b, start))
    entries = math.prod(leading) * rows * columns
    charge(entries * steps, CARRIED if carried else 1, carried=carried)
    for _ in range(steps):
        charge(entries, CARRIED if carried else 1, carried=carried)
        charge_product(entries * rows, carried=carried)
    grade = next((x.grade for x in (a, b, start) if isinstance(x, Number)), None)
    shapes = ((*leading, steps, rows, rows), (*leading, steps, rows, columns), (*leading, rows, columns))
    spread = [_spread(x, shape, grade) for x, shape in zip((a, b, start), shapes, strict=True)]
    if kept is None:
        return recurrences.recurred(*spread)
    factors = (*leading, steps, rows, 1)
    if joined_shape(shape_of(kept), factors) != factors:
        raise SpecError(f"no factors of shape {shape_of(kept)} are kept of the rows of states of shape {shapes[1]}")
    if grade is not None:
        charge(entries * steps, 4 * CARRIED, carried=True)
        charge_product(entries * steps * rows, carried=True)
    return recurrences.recurred(*spread, kept=_spread(_reducible(kept), factors, grade))


def _spread(x: Any, shape: tuple[int, ...], grade: Grade | None) -> Any:
    """`x` in a shape that it is broadcast to."""
    if grade is None:
        return np.broadcast_to(np.asarray(x, float), shape)
    return number(x, grade).map(lambda part: np.broadcast_to(part, shape))


@FUNCTIONS(graded=_rounds)
def shift(x: Any, axis: Any = -1) -> Any:
    """The array minus its maximum along an axis (0 for a row of minus infinities), without the error of the maximum."""
    return primitives.shift(x, along(axis))


@FUNCTIONS(graded=_rounds)
def logsumexp(x: Any, axis: Any = -1, keep: Any = False) -> Any:
    """The logarithm of the sum of the exponentials."""
    return primitives.logsumexp(x, along(axis), bool(keep))


@FUNCTIONS(graded=_rounds)
def average(w: Any, x: Any, axis: Any = None) -> Any:
    """The sum of w x divided by that of w, rows of w by rows of x; with axis, entry by entry; 0 without any weight."""
    a, b = shape_of(w), shape_of(x)
    if axis is None and (len(a) < 2 or len(b) < 2 or a[-1] != b[-2]):
        raise SpecError(f"average takes weights [..., q, n] and values [..., n, d], not {a} and {b}")
    carried = isinstance(w, Number) or isinstance(x, Number)
    if axis is None:
        rows, n = math.prod(joined_shape(a[:-2], b[:-2])) * a[-2], a[-1]
        charge(rows * max(b[-1], n), 8 if carried else 2, carried=carried)
        charge_product(rows * n * b[-1], carried=carried)
    else:
        shape = joined_shape(a, b)
        n = shape[whole(axis)] if shape else 1
        rows = math.prod(shape) // max(n, 1)
        charge(rows * n, 8 if carried else 2, carried=carried)
    if carried:
        spend(averages.multiplicity_work(rows * n, n))
    return averages.average(w, x, None if axis is None else whole(axis))


# Selection


@FUNCTIONS(work=10)
def largest(x: Any, k: Any, axis: Any = -1) -> Any:
    """Booleans: true for the k largest along an axis; of equal entries, for the earlier."""
    return ranking.largest(x, whole(k), along(axis))


@FUNCTIONS(work=10)
def above(x: Any, axis: Any = -1) -> Any:
    """The sum of the entries that come before this one in descending order."""
    charge(math.prod(shape_of(x)) * shape_of(x)[along(axis)])
    return ranking.above(x, along(axis))


SORTED, SORTED_WITH_BOUNDS = 15, 90
"""The work of `sum_ahead` for each entry; with bounds, the ends of what may be exchanged are sorted as well."""
ROW_WITH_BOUNDS = 1500
"""The work for each row beside that, as what may be exchanged is found for one row after the other."""


@FUNCTIONS(graded=_rounds_fractions)
def sum_ahead(w: Any, x: Any, then: Any = None, alike: Any = None) -> Any:
    """The sum of w over the entries along the last axis that come before this one in descending order of x.

    Equal ones do not come before each other, or those whose `then` is greater do. Entries of the same `alike` are
    equal, whatever rounding does to x.
    """
    shape = ()
    for part in (w, x, then, alike):
        shape = shape if part is None else joined_shape(shape, shape_of(part))
    if not shape:
        raise SpecError("sum_ahead takes an array, whose last axis it goes along")
    carried = isinstance(w, Number) or isinstance(x, Number)
    charge(math.prod(shape), SORTED_WITH_BOUNDS if carried else SORTED, carried=carried)
    if carried:
        spend(math.prod(shape[:-1]) * ROW_WITH_BOUNDS)
    return ranking.ahead(_reducible(w) if isinstance(w, Truth) else w, x, then, alike)


@FUNCTIONS(work=15)
def argsort(x: Any, axis: Any = -1) -> Any:
    """The indices in descending order, stable; indices that rounding may exchange are undecided."""
    return ranking.order(x, along(axis))
