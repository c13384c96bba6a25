"""The functions of definitions and laws, on plain arrays or on numbers with bounds.

Each takes either; a number comes back as a number with its bound.
Three of them are primitives because their bound is much tighter than that of the operations they represent:
`shift` (softmax does not see the maximum that is subtracted), `average` (errors of the weights act on the distance of a
value from the result, and cancel where all values agree) and `logsumexp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .budget import broadcast
from .formats import half_unit
from .grades import Grade, result_format
from .numbers import Number, flushed, made, number, settled, shared_along, steepest, value
from .parts import Array, K, absent, finite
from .products import by_torch, room
from .ranges import in_own_range
from .truths import Truth, every, some, truth

FEW = 64
"""Entries that are compared each with each; more of them are sorted."""
LIBRARY_UNITS = 24.0
"""Units of error allowed to the exponential: fast kernels approximate it by a polynomial."""

FAR = 50.0
"""An error of an exponent beyond which nothing is known of the exponential."""


# Entry by entry


def fractions(x: Any) -> Any:
    """An array of fractions: in single precision if it is so already, and else in double precision."""
    x = np.asarray(x)
    return x if x.dtype == np.float32 else x.astype(float, copy=False)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def tanh(x: Any) -> Any:
    if not isinstance(x, Number):
        return np.tanh(fractions(x))
    return made(np.tanh(x.value), x.grade, (x, 1 - np.tanh(_nearest_to_zero(x)) ** 2), roundings=8.0)


def erf(x: Any) -> Any:
    """The error function; kernels take a polynomial for it that errs by 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    if not isinstance(x, Number):
        x = fractions(x)
        return np.asarray(_ERF(x), x.dtype)
    slope = 2 / np.sqrt(np.pi) * np.exp(-(_nearest_to_zero(x) ** 2))
    return made(_ERF(x.value), x.grade, (x, slope), roundings=8.0, extra=np.asarray(4 * x.grade.arithmetic.unit))


_ERF = np.vectorize(math.erf, otypes=[float])


def _nearest_to_zero(x: Number) -> Any:
    """Where curves that flatten out on both sides are steepest within the bound."""
    return np.maximum(np.abs(x.value) - x.radius, 0.0)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)); kernels compute it by a tangent, too, and then its errors are those of a number near one."""
    if not isinstance(x, Number):
        return _sigmoid(fractions(x))
    nearest = _sigmoid(_nearest_to_zero(x))
    unit = np.asarray(x.grade.arithmetic.unit)
    return made(_sigmoid(x.value), x.grade, (x, nearest * (1 - nearest)), roundings=8.0, extra=unit)


def sqrt(x: Any) -> Any:
    if not isinstance(x, Number):
        return np.sqrt(fractions(x))
    return made(np.sqrt(x.value), x.grade, (x, 0.5 / np.sqrt(steepest(x))))


def _circular(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        if not isinstance(x, Number):
            return f(fractions(x))
        return made(f(x.value), x.grade, (x, 1.0), extra=np.asarray(4 * x.grade.arithmetic.unit))

    return apply


sin, cos = _circular(np.sin), _circular(np.cos)


def log(x: Any) -> Any:
    if not isinstance(x, Number):
        return np.log(fractions(x))
    own = np.asarray(x.grade.arithmetic.unit)
    return made(np.log(x.value), x.grade, (x, 1 / steepest(x)), roundings=2.0, extra=own)


def exp(x: Any) -> Any:
    """The exponential; its errors are taken through expm1, for they may be too large for a slope."""
    if not isinstance(x, Number):
        return _exp_by_torch(x) if by_torch(x) else in_own_range(np.exp(fractions(x)))
    result, grade = np.exp(x.value), x.grade
    size = finite(result)
    own = LIBRARY_UNITS * grade.arithmetic.unit * size + 2 * flushed(grade)
    worst, variance, shared = own, 0.0, own / K
    if not x.exact:
        worst = worst + _grown(x.value, size, finite(x.worst))
        if not absent(x.variance):
            variance = (_grown(x.value, size, K * np.sqrt(finite(x.variance))) / K) ** 2
        if not absent(x.shared):
            shared = shared + _grown(x.value, size, K * finite(x.shared)) / K
        worst = np.where(np.isinf(x.worst), np.inf, worst)
    return settled(result, grade, worst, variance, shared, roundings=0.0)


def _exp_by_torch(x: Any) -> Any:
    """The exponential as a power of two, which torch computes faster, to some units of single precision."""
    import torch

    found = np.multiply(x, np.float32(np.log2(np.e)), out=room(x.shape))
    torch.exp2(entries := torch.from_numpy(found), out=entries)
    return found


def _grown(x: Any, size: Any, error: Any) -> Any:
    """How far an error takes the exponential of `x`, whose size is given, up to a size of exp(FAR)."""
    grown = size * np.expm1(np.minimum(error, FAR))
    beyond = (error > FAR) & (x > -np.inf)
    return np.where(beyond, np.maximum(grown, np.exp(np.minimum(x + error, FAR))), grown) if some(beyond) else grown


def rint(x: Any) -> Any:
    """The nearest integer; as many units of doubt as there are halves that rounding may cross."""
    if not isinstance(x, Number):
        return np.rint(fractions(x))
    nearest = np.rint(x.value)
    crossed = np.floor(np.abs(x.value - nearest) + x.radius + 0.5)
    return Number.within(nearest, np.where(np.isnan(crossed), np.inf, crossed), grade=x.grade)


def significant(x: Any, digits: int, least: float) -> Any:
    """The nearest number of so many significant digits in base two that is a multiple of `least`, ties to even.

    It grows with `x`, so that the results at both ends of an error bound bound the error of the result.
    """
    if not isinstance(x, Number):
        return _significant(fractions(x), digits, least)
    nearest = _significant(x.value, digits, least)
    with np.errstate(invalid="ignore"):
        ends = [np.abs(_significant(end, digits, least) - nearest) for end in (x.value - x.radius, x.value + x.radius)]
    error = np.maximum(*ends)
    return Number.within(nearest, np.where(np.isnan(error), np.inf, error), grade=x.grade)


def _significant(x: Any, digits: int, least: float) -> Any:
    unit = np.maximum(np.ldexp(1.0, np.frexp(x)[1] - digits), least)
    return np.rint(x / unit) * unit


def where(condition: Any, x: Any, y: Any) -> Any:
    """A choice entry by entry; where the condition is undecided, the result carries the distance of its branches."""
    numbers = [t for t in (x, y) if isinstance(t, Number)]
    if not numbers and not isinstance(condition, Truth):
        x, y = (float(part) if type(part) is np.float64 else part for part in (x, y))  # which decides no precision
        return _mostly(condition, x, y) if by_torch(x) and isinstance(y, float) else np.where(condition, x, y)
    if not numbers:
        doubt = truth(condition)
        if every(np.equal(doubt.can, doubt.must)):
            return np.where(doubt.must, x, y)
        numbers = [Number(value(x))]
    grade, doubt = numbers[0].grade, truth(condition)
    x, y = number(x, grade), number(y, grade)
    shape = broadcast(doubt.shape, x.shape, y.shape)
    x, y = shared_along(x, shape), shared_along(y, shape)
    chosen = np.where(doubt.must, x.value, y.value)
    pairs = ((x.worst, y.worst), (x.variance, y.variance), (x.shared, y.shared))
    parts = [0.0 if absent(p) and absent(q) else np.where(doubt.must, p, q) for p, q in pairs]
    unsure = np.not_equal(doubt.can, doubt.must)
    if some(unsure):  # it may be the other one, with the error of that
        gap = np.where(unsure, np.nan_to_num(np.abs(x.value - y.value), nan=0.0, posinf=np.inf), 0.0)
        parts = [np.where(unsure, np.maximum(p, q), part) for part, (p, q) in zip(parts, pairs, strict=True)]
        parts = [parts[0] + gap, parts[1], parts[2] + gap / K]
    return Number(chosen if chosen.shape == shape else np.broadcast_to(chosen, shape), *parts, grade=grade)


def _mostly(condition: Any, x: Any, y: float) -> Any:
    """`x`, but a number where a condition is false: somewhere between two places of the last axis."""
    held = np.asarray(condition)
    if held.ndim == 0 or held.shape[-1] != x.shape[-1] or np.broadcast_shapes(held.shape, x.shape) != x.shape:
        return np.where(condition, x, y)
    np.copyto(found := room(x.shape), x)
    some_places = np.flatnonzero(~np.logical_and.reduce(held, axis=tuple(range(held.ndim - 1))))
    if len(some_places):
        part = (..., slice(some_places[0], some_places[-1] + 1))
        np.copyto(found[part], np.float32(y), where=~held[part])
    return found


def stored(x: Any, dtype: str, grade: Grade) -> Any:
    """`x` after one more rounding to the dtype under test.

    What rounds to the same significand errs alike; by Cauchy and Schwarz, counting it makes the variance of sums right.
    """
    x = number(x, grade)
    fmt = result_format(dtype, grade)
    step = half_unit(np.abs(x.value) + x.radius, fmt)
    significand = np.ldexp(np.abs(np.frexp(finite(x.value))[0]), fmt.digits)
    alike = _alike(np.rint(significand).ravel()).reshape(x.shape)
    variance = x.variance + alike * step * step / 3
    held = grade.operand is not None and fmt.digits <= grade.operand.digits
    return Number(x.value, x.worst + step, variance, x.shared, grade=grade, held=held)


def _alike(x: Any) -> Any:
    """How often the value of each entry of a row is in it."""
    if x.size <= FEW:
        return np.count_nonzero(x[:, None] == x, axis=-1)
    order = x.argsort()
    ranked, place = x[order], np.zeros(x.size, int)
    place[order[1:]] = np.cumsum(ranked[1:] != ranked[:-1])
    return np.bincount(place)[place]


# Along an axis


def total(x: Any, axis: int = -1, keep: bool = False) -> Any:
    """The sum: the product with ones; of copies that are views of one of them, it is found once."""
    plain = value(x)
    if 0 not in getattr(plain, "strides", ()) or (isinstance(x, Number) and not x.exact):
        return _total(x, axis, keep)
    own = axis % plain.ndim
    several = [stride == 0 and at != own for at, stride in enumerate(plain.strides)]
    shape = [1 if at == own else n for at, n in enumerate(plain.shape) if keep or at != own]
    found = _total(x[tuple(slice(1) if each else slice(None) for each in several)], axis, keep)
    return (
        found.map(lambda part: np.broadcast_to(part, shape)) if isinstance(x, Number) else np.broadcast_to(found, shape)
    )


def _total(x: Any, axis: int, keep: bool) -> Any:
    if not isinstance(x, Number):
        return in_own_range(np.sum(x, axis=axis, keepdims=keep))
    n, unit = x.value.shape[axis], x.grade.arithmetic.unit

    def add(part: Array) -> Array:
        return part if absent(part) else np.add.reduce(x.full(part), axis=axis, keepdims=keep)

    size = add(finite(np.abs(x.value)))
    worst, variance = add(x.worst) + n * unit * size, add(x.variance) + n / 3 * (unit * size) ** 2
    return settled(add(x.value), x.grade, worst, variance, add(x.shared), roundings=0.0)


def mean(x: Any, axis: int = -1, keep: bool = False) -> Any:
    return total(x, axis, keep) / np.float64(np.shape(value(x))[axis])


def extreme(f: Callable[..., Any], x: Any, axis: int = -1, keep: bool = False) -> Any:
    """The greatest (`np.max`) or least (`np.min`) entry; of no entries, the infinity on the other side."""
    floor = -np.inf if f is np.max else np.inf
    if not isinstance(x, Number):
        return f(x, axis=axis, keepdims=keep, initial=floor) if np.size(x) == 0 else f(x, axis=axis, keepdims=keep)

    def most(part: Array) -> Array:
        return part if absent(part) else np.max(x.full(part), axis=axis, keepdims=keep, initial=0.0)

    largest = f(x.value, axis=axis, keepdims=keep, initial=floor)
    return Number(largest, most(x.worst), 0.0, most(x.shared) + np.sqrt(most(x.variance)), grade=x.grade)


def extreme_of_two(f: Callable[..., Any], x: Any, y: Any) -> Any:
    """The greater (`np.max`) or lesser (`np.min`) of two, entry by entry."""
    if isinstance(x, Number) or isinstance(y, Number):
        return where(x >= y if f is np.max else x <= y, x, y)
    if isinstance(x, int) and isinstance(y, int):
        return max(x, y) if f is np.max else min(x, y)
    return np.maximum(x, y) if f is np.max else np.minimum(x, y)


def cumulated(x: Any, axis: int = -1) -> Any:
    if not isinstance(x, Number):
        return np.cumsum(x, axis)
    n, unit = x.value.shape[axis], x.grade.arithmetic.unit
    own = n * unit * np.cumsum(finite(np.abs(x.value)), axis)
    worst, variance, shared = (p if absent(p) else np.cumsum(x.full(p), axis) for p in (x.worst, x.variance, x.shared))
    return settled(np.cumsum(x.value, axis), x.grade, worst + own, variance, shared + own / K, roundings=0.0)


def _peak(x: Any, axis: int) -> Any:
    if by_torch(x) and x.shape[axis]:
        import torch

        return finite(torch.amax(torch.from_numpy(x), axis, keepdim=True).numpy())
    return finite(np.maximum.reduce(x, axis=axis, keepdims=True, initial=-np.inf))


def shift(x: Any, axis: int = -1) -> Any:
    """`x` less its own maximum (less 0 where that is infinite), free of the maximum's error.

    What is rounded at the size of `x` itself may be shared by many entries: partial results that are merged by their
    logsumexps carry the rounding of those.
    """
    if not isinstance(x, Number):
        return _less(x, _peak(x, axis)) if by_torch(x) else x - _peak(x, axis)
    result = x.value - _peak(x.value, axis)
    unit = x.grade.arithmetic.unit
    own, common = unit * finite(np.abs(result)), 2 * unit * finite(np.abs(x.value))
    return settled(
        result, x.grade, x.worst + own + common, x.variance + own * own / 3, x.shared + common / K, roundings=0.0
    )


def _less(x: Any, y: Any) -> Any:
    import torch

    found = room(x.shape)
    torch.sub(torch.from_numpy(x), torch.from_numpy(y), out=torch.from_numpy(found))
    return found


def logsumexp(x: Any, axis: int = -1, keep: bool = False) -> Any:
    """The logarithm of the sum of exponentials; minus infinity of no entries."""
    plain = value(x)
    peak = _peak(plain, axis)
    terms = np.exp(plain - peak)
    sums = np.add.reduce(terms, axis=axis, keepdims=True)
    result = peak + np.log(sums)
    squeeze = (lambda part: part) if keep else (lambda part: np.squeeze(part, axis))
    if not isinstance(x, Number):
        return squeeze(result)
    share = np.where(sums > 0, terms / np.where(sums > 0, sums, 1.0), 0.0)
    n, unit = plain.shape[axis], x.grade.arithmetic.unit

    def weighed(part: Array, slope: Any) -> Array:
        return part if absent(part) else np.sum(finite(slope * part), axis=axis, keepdims=True)

    size = finite(np.abs(result))
    own = unit * (n + 8 + LIBRARY_UNITS) + 2 * unit * size
    worst = own if x.exact else _risen(share, x.full(x.worst), axis) + own
    variance = weighed(x.variance, share * share) + (n / 3 + 8) * unit * unit + (unit * size) ** 2
    shared = weighed(x.shared, share) + unit * (LIBRARY_UNITS + size) / K
    if not x.exact:  # a sum of exponentials is steeper above than below
        radius = x.full(x.radius)
        shared = shared + (_growth(share, radius, axis) - weighed(np.minimum(radius, FAR), share)) / K
    made_ = settled(result, x.grade, worst, variance, shared, roundings=0.0)
    return made_.map(squeeze)


def _risen(share: Any, error: Any, axis: int) -> Any:
    """How far a logsumexp may move where its entries err by so much.

    It is convex, so that it falls by no more than the mean error, which the growth of its exponentials exceeds.
    """
    beyond = np.max(np.where(share > 0, np.maximum(finite(error) - FAR, 0.0), 0.0), axis=axis, keepdims=True, initial=0)
    return np.log1p(_growth(share, error, axis)) + beyond


def _growth(share: Any, error: Any, axis: int) -> Any:
    """By which share a sum of exponentials grows where each exponent grows by its error, up to `FAR`."""
    return np.sum(share * np.expm1(np.minimum(finite(error), FAR)), axis=axis, keepdims=True)


# Selection: these decide by themselves what a comparison of nearly equal numbers would leave undecided


def unspecified(grade: Grade) -> Number:
    """A number of which nothing is claimed: no comparison with it is ever decided."""
    return Number.within(np.asarray(np.nan), np.asarray(np.inf), grade=grade)
