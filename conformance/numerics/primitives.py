"""What definitions and laws compute with: functions of plain arrays or of error-carrying numbers.

Each takes either; a number comes back as a number with its bound.
Three of them are primitives because their bound is much tighter than that of the operations they represent:
`shift` (softmax does not see the maximum that is subtracted), `average` (errors of the weights act on the distance of a
value from the result, and cancel where all values agree) and `logsumexp`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .formats import half_unit
from .grades import Grade, result_format
from .numbers import (
    Array,
    K,
    Number,
    absent,
    finite,
    flushed,
    made,
    number,
    operand_error,
    settled,
    shared_along,
    steepest,
    value,
)
from .truths import Truth, truth

FEW = 256
"""Weights of a row that are compared each with each; more of them are sorted."""
LIBRARY_UNITS = 24.0
"""Units of error allowed to the exponential: fast kernels approximate it by a polynomial."""


# Entry by entry


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def tanh(x: Any) -> Any:
    if not isinstance(x, Number):
        return np.tanh(np.asarray(x, float))
    return made(np.tanh(x.value), x.grade, (x, 1 - np.tanh(_nearest_to_zero(x)) ** 2), roundings=8.0)


def _nearest_to_zero(x: Number) -> Any:
    """Where curves that flatten out on both sides are steepest within the bound."""
    return np.maximum(np.abs(x.value) - x.radius, 0.0)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)); kernels compute it by a tangent, too, and then its errors are those of a number near one."""
    if not isinstance(x, Number):
        return _sigmoid(np.asarray(x, float))
    nearest = _sigmoid(_nearest_to_zero(x))
    unit = np.asarray(x.grade.arithmetic.unit)
    return made(_sigmoid(x.value), x.grade, (x, nearest * (1 - nearest)), roundings=8.0, extra=unit)


def sqrt(x: Any) -> Any:
    if not isinstance(x, Number):
        return np.sqrt(np.asarray(x, float))
    return made(np.sqrt(x.value), x.grade, (x, 0.5 / np.sqrt(steepest(x))))


def _circular(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        if not isinstance(x, Number):
            return f(np.asarray(x, float))
        return made(f(x.value), x.grade, (x, 1.0), extra=np.asarray(4 * x.grade.arithmetic.unit))

    return apply


sin, cos = _circular(np.sin), _circular(np.cos)


def log(x: Any) -> Any:
    if not isinstance(x, Number):
        return np.log(np.asarray(x, float))
    own = np.asarray(x.grade.arithmetic.unit)
    return made(np.log(x.value), x.grade, (x, 1 / steepest(x)), roundings=2.0, extra=own)


def exp(x: Any) -> Any:
    """The exponential; its errors are taken through expm1, for they may be too large for a slope."""
    if not isinstance(x, Number):
        return np.exp(np.asarray(x, float))
    result, grade = np.exp(x.value), x.grade
    size = finite(result)
    own = LIBRARY_UNITS * grade.arithmetic.unit * size + 2 * flushed(grade)
    worst, variance, shared = own, 0.0, own / K
    if not x.exact:
        worst = worst + size * np.expm1(np.minimum(finite(x.worst), 50.0))
        if not absent(x.variance):
            variance = (size * np.expm1(np.minimum(K * np.sqrt(finite(x.variance)), 50.0)) / K) ** 2
        if not absent(x.shared):
            shared = shared + size * np.expm1(np.minimum(K * finite(x.shared), 50.0)) / K
        worst = np.where(np.isinf(x.worst), np.inf, worst)
    return settled(result, grade, worst, variance, shared, roundings=0.0)


def rint(x: Any) -> Any:
    """The nearest integer; as many units of doubt as there are halves that rounding may cross."""
    if not isinstance(x, Number):
        return np.rint(np.asarray(x, float))
    nearest = np.rint(x.value)
    crossed = np.floor(np.abs(x.value - nearest) + x.radius + 0.5)
    return Number.within(nearest, np.where(np.isnan(crossed), np.inf, crossed), grade=x.grade)


def where(condition: Any, x: Any, y: Any) -> Any:
    """A choice entry by entry; where the condition is undecided, the result carries the distance of its branches."""
    numbers = [t for t in (x, y) if isinstance(t, Number)]
    if not numbers and not isinstance(condition, Truth):
        return np.where(condition, x, y)
    if not numbers:
        doubt = truth(condition)
        if np.all(doubt.can == doubt.must):
            return np.where(doubt.must, x, y)
        numbers = [Number(value(x))]
    grade, doubt = numbers[0].grade, truth(condition)
    x, y = number(x, grade), number(y, grade)
    shape = np.broadcast_shapes(doubt.shape, x.shape, y.shape)
    x, y = shared_along(x, shape), shared_along(y, shape)
    chosen = np.where(doubt.must, x.value, y.value)
    pairs = ((x.worst, y.worst), (x.variance, y.variance), (x.shared, y.shared))
    parts = [0.0 if absent(p) and absent(q) else np.where(doubt.must, p, q) for p, q in pairs]
    unsure = doubt.can != doubt.must
    if np.any(unsure):  # it may be the other one, with the error of that
        gap = np.where(unsure, np.nan_to_num(np.abs(x.value - y.value), nan=0.0, posinf=np.inf), 0.0)
        parts = [np.where(unsure, np.maximum(p, q), part) for part, (p, q) in zip(parts, pairs, strict=True)]
        parts = [parts[0] + gap, parts[1], parts[2] + gap / K]
    return Number(np.broadcast_to(chosen, shape), *parts, grade=grade)


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
    if x.size <= FEW // 4:
        return np.count_nonzero(x[:, None] == x, axis=-1)
    order = x.argsort()
    ranked, place = x[order], np.zeros(x.size, int)
    place[order[1:]] = np.cumsum(ranked[1:] != ranked[:-1])
    return np.bincount(place)[place]


# Along an axis


def total(x: Any, axis: int = -1, keep: bool = False) -> Any:
    """The sum: the product with ones."""
    if not isinstance(x, Number):
        return np.sum(x, axis=axis, keepdims=keep)
    n, unit = x.value.shape[axis], x.grade.arithmetic.unit

    def add(part: Array) -> Array:
        return part if absent(part) else np.sum(x.full(part), axis=axis, keepdims=keep)

    size = add(finite(np.abs(x.value)))
    worst, variance = add(x.worst) + n * unit * size, add(x.variance) + n / 3 * (unit * size) ** 2
    return settled(np.sum(x.value, axis=axis, keepdims=keep), x.grade, worst, variance, add(x.shared), roundings=0.0)


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
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0.0)


def shift(x: Any, axis: int = -1) -> Any:
    """`x` less its own maximum (less 0 where that is infinite), free of the maximum's error.

    What is rounded at the size of `x` itself may be shared by many entries: partial results that are merged by their
    logsumexps carry the rounding of those.
    """
    if not isinstance(x, Number):
        return x - _peak(x, axis)
    result = x.value - _peak(x.value, axis)
    unit = x.grade.arithmetic.unit
    own, common = unit * finite(np.abs(result)), 2 * unit * finite(np.abs(x.value))
    return settled(
        result, x.grade, x.worst + own + common, x.variance + own * own / 3, x.shared + common / K, roundings=0.0
    )


def logsumexp(x: Any, axis: int = -1, keep: bool = False) -> Any:
    """The logarithm of the sum of exponentials; minus infinity of no entries."""
    plain = value(x)
    peak = _peak(plain, axis)
    terms = np.exp(plain - peak)
    sums = np.sum(terms, axis=axis, keepdims=True)
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
    worst = weighed(x.worst, share) + own
    variance = weighed(x.variance, share * share) + (n / 3 + 8) * unit * unit + (unit * size) ** 2
    shared = weighed(x.shared, share) + unit * (LIBRARY_UNITS + size) / K
    made_ = settled(result, x.grade, worst, variance, shared, roundings=0.0)
    return made_.map(squeeze)


def multiplicity(weights: Any, width: float) -> Any:
    """For every weight of a row, how many of the row have nearly its size (their logarithms fall in one bucket).

    Such weights are rounded alike; by Cauchy and Schwarz the factor makes the variance of their sum exact again.
    """
    n = weights.shape[-1]
    nowhere = -1e15 - np.arange(n)  # a weight of zero is tied with none
    bucket = np.where(weights > 0, np.floor(np.log(np.where(weights > 0, weights, 1.0)) / width), nowhere)
    ranked = np.sort(bucket, axis=-1)
    if (ranked[..., 1:] != ranked[..., :-1]).all():
        return 1.0
    if not _each_with_each(bucket.size, n):
        return _runs(bucket)
    return np.sum(bucket[..., :, None] == bucket[..., None, :], axis=-1, dtype=float)


def _each_with_each(size: int, n: int) -> bool:
    """Whether rows are so short and few that each entry is compared with every other of its row."""
    return n <= FEW and size <= 1 << 18


def multiplicity_work(size: int, n: int) -> int:
    """The work of `multiplicity` on so many weights in rows of n."""
    return size * n // 4 if _each_with_each(size, n) else 15 * size


def _runs(bucket: Any) -> Any:
    """How often the value of each entry stands in its row, by sorting."""
    order = np.argsort(bucket, axis=-1, kind="stable")
    ranked = np.take_along_axis(bucket, order, -1)
    starts = np.ones(ranked.shape, bool)
    starts[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    run = (np.cumsum(starts) - 1).reshape(ranked.shape)
    counts = np.empty(ranked.shape)
    np.put_along_axis(counts, order, np.bincount(run.ravel())[run].astype(float), -1)
    return counts


def average(weights: Any, x: Any, axis: int | None = None) -> Any:
    """The sum of `weights` times `x` over that of the weights: rows of weights `[..., q, n]` against `x [..., n, d]`.

    With `axis`, entry by entry along that axis.
    Zero where all weights are zero; an entry of no weight may hold anything.
    """
    if axis is not None:
        return _average_along(weights, x, axis)
    grade = next((t.grade for t in (weights, x) if isinstance(t, Number)), None)
    w, v = value(weights), value(x)
    sums = np.sum(w, axis=-1, keepdims=True)
    some = sums != 0
    p = w / np.where(some, sums, 1.0)
    result = _weighted(p, v)
    if grade is None:
        return np.where(some, result, 0.0)
    errors = _average_errors(number(weights, grade), number(x, grade), p, np.where(some, sums, 1.0), finite(result))
    worst, variance, shared = (np.where(some, part, 0.0) for part in errors)
    reach = _reach(number(weights, grade), v)
    if np.any(reach):
        worst, shared = worst + reach, shared + reach / K
    return settled(np.where(some, result, 0.0), grade, worst, variance, shared, roundings=0.0)


def _reach(w: Number, v: Any) -> Any:
    """A bound on an average where every weight is nominally zero, but some might not be; 0 elsewhere.

    What underflow may leave of a weight of zero does not count.
    """
    underflow = flushed(w.grade) + (w.grade.stored.tiny if w.grade.stored else 0.0)
    possible = (w.full(w.worst) > 8 * underflow) & np.all(w.value == 0, axis=-1, keepdims=True)
    return possible.astype(float) @ finite(np.abs(v)) if possible.any() else 0.0


def _average_along(weights: Any, x: Any, axis: int) -> Any:
    """`average` entry by entry: rows of one query against values of one channel."""
    shape = np.broadcast_shapes(np.shape(value(weights)), np.shape(value(x)))

    def last(part: Any) -> Any:
        return np.moveaxis(np.broadcast_to(part, shape), axis, -1)

    def mapped(t: Any, f: Callable[[Any], Any]) -> Any:
        return t.map(f) if isinstance(t, Number) else f(t)

    rows = average(mapped(weights, lambda t: last(t)[..., None, :]), mapped(x, lambda t: last(t)[..., :, None]))
    return rows[..., 0, 0]


def _weighted(p: Any, v: Any) -> Any:
    """P @ v, where an entry of weight zero may hold anything: 0 times infinity is 0 here."""
    if np.isfinite(v).all():
        return p @ v
    result, used = p @ finite(v), (p != 0).astype(float)
    up, down, nans = (used @ kind.astype(float) > 0 for kind in (v == np.inf, v == -np.inf, np.isnan(v)))
    lost = np.isnan(p).any(-1, keepdims=True)
    result = np.where(up, np.inf, np.where(down, -np.inf, result))
    return np.where(nans | (up & down) | lost, np.nan, result)


def _average_errors(w: Number, v: Number, p: Any, sums: Any, result: Any) -> tuple[Any, Any, Any]:
    """The errors of a weighted average: worst, variance, shared."""
    grade, n = w.grade, w.value.shape[-1]
    unit = grade.arithmetic.unit
    unit_weight = grade.weight.unit if grade.weight else 0.0
    unit_value = operand_error(v)[0]
    held, size = finite(v.value), finite(np.abs(v.value))
    weight = np.abs(p)
    present = np.abs(w.value) > 1e-150
    safe = np.where(present, np.abs(w.value), 1.0)
    squares = held * held

    drift = 0.0 if w.exact else np.sum(weight * np.where(present, w.full(w.worst) / safe, 0.0), axis=-1, keepdims=True)
    growth = 1 / (1 - np.minimum(drift, 0.5))  # the sum that is divided by errs as well

    def relative(part: Array) -> Any:
        return growth * np.where(present, w.full(part) / safe, 0.0)

    def spread(a: Any) -> Any:  # sum of a * (v - result) ** 2, as matrix products
        moment = a @ squares - 2 * result * (a @ held) + result * result * np.sum(a, axis=-1, keepdims=True)
        return np.maximum(moment, 0.0)

    def linear(a: Any) -> Any:  # a bound on sum of a * |v - result|, after Cauchy and Schwarz
        return np.sqrt(np.sum(a, axis=-1, keepdims=True) * spread(a))

    summed = weight @ size
    rounding = summed + np.abs(result)
    worst = (unit_weight + unit_value) * summed + (2 * n + 2) * unit * rounding
    variance = n / 3 * unit * unit * (summed * summed + result * result) + 4 / 3 * (unit * result) ** 2
    shared: Any = 0.0
    ties = multiplicity(weight, max(unit_weight / 4, 4 * unit)) if n > 1 else 1.0
    if unit_weight or unit_value:
        variance = variance + (unit_weight**2 + unit_value**2) / 3 * ((ties * weight * weight) @ squares)
    if grade.weight is not None:  # weights below the format's range vanish
        lost = grade.weight.tiny * np.maximum(1.0, 1 / sums) * np.sum(size, axis=-2, keepdims=True)
        worst, shared = worst + lost, shared + lost / K
    if not w.exact:
        worst = worst + linear(weight * relative(w.worst))
        if not absent(w.variance):
            variance = variance + spread(weight * weight * ties * growth * relative(w.variance / safe))
        if not absent(w.shared):  # does not cancel: partial results may be normalised by their logsumexps
            moved = weight * relative(w.shared)
            common = np.maximum(moved @ size, linear(moved))
            worst, shared = worst + K * common, shared + common
        ghosts = np.where(present, 0.0, w.full(w.worst)) / np.abs(sums)
        if np.any(ghosts):  # a weight that is nominally zero but might not be
            far = ghosts @ size + np.abs(result) * np.sum(ghosts, axis=-1, keepdims=True)
            worst, shared = worst + far, shared + far / K
    if not v.exact:
        worst = worst + weight @ v.full(v.worst)
        variance = variance + (0.0 if absent(v.variance) else weight**2 @ v.full(v.variance))
        shared = shared + (0.0 if absent(v.shared) else weight @ v.full(v.shared))
    return worst, variance, shared


# Selection: these decide by themselves what a comparison of nearly equal numbers would leave undecided


def largest(x: Any, k: int, axis: int = -1) -> Any:
    """Which entries are among the k largest; of equal ones the earlier. Undecided where rounding may exchange two."""
    plain = np.moveaxis(np.asarray(value(x), float), axis, -1)
    n, k = plain.shape[-1], max(0, min(int(k), plain.shape[-1]))
    ranks = np.argsort(np.argsort(-plain, axis=-1, kind="stable"), axis=-1, kind="stable")
    kept = ranks < k
    if not isinstance(x, Number) or x.exact or k in (0, n):
        return np.moveaxis(kept, -1, axis)
    radius = np.moveaxis(x.full(x.radius), axis, -1)
    falling = -np.sort(-plain, axis=-1)
    reach = radius.max(-1, keepdims=True)
    last, first_out = falling[..., k - 1 : k], falling[..., k : k + 1]
    clear = np.where(kept, plain - radius > first_out + reach, plain + radius < last - reach)
    unsure = ~clear & (reach != 0)
    return Truth(np.moveaxis(kept | unsure, -1, axis), np.moveaxis(kept & ~unsure, -1, axis))


def order(x: Any, axis: int = -1) -> Any:
    """The indices that sort falling; equal entries keep theirs. Where rounding may exchange two, nothing is known."""
    plain = np.moveaxis(np.asarray(value(x), float), axis, -1)
    indices = np.argsort(-plain, axis=-1, kind="stable")
    if isinstance(x, Number) and not x.exact:
        radius = np.moveaxis(x.full(x.radius), axis, -1)
        least, most = (np.take_along_axis(bound, indices, -1) for bound in (plain - radius, plain + radius))
        cut = np.minimum.accumulate(least, -1)[..., :-1] > np.maximum.accumulate(most[..., ::-1], -1)[..., -2::-1]
        ends = np.ones_like(cut[..., :1])
        unsure = ~(np.concatenate([ends, cut], -1) & np.concatenate([cut, ends], -1))
        if unsure.any():
            doubt = np.where(unsure, np.inf, 0.0)
            return Number.within(indices.astype(float), doubt, grade=x.grade).map(lambda t: np.moveaxis(t, -1, axis))
    return np.moveaxis(indices, -1, axis)


def taken(x: Any, index: Any, axis: int) -> Any:
    """The entries at integers along an axis; nothing is known of one whose index is in doubt."""
    places = np.asarray(value(index)).astype(np.int64)

    def take(part: Any) -> Any:
        return np.take(part, places, axis)

    if not isinstance(index, Number) or index.exact:
        return x.map(take) if isinstance(x, Number) else take(np.asarray(x))
    entries = number(x, index.grade).map(take)
    doubt = index.full(index.radius) != 0
    doubt = doubt.reshape(doubt.shape + (1,) * (value(x).ndim - 1 - axis % value(x).ndim))
    parts = (np.where(doubt, np.inf, part) for part in (entries.worst, entries.variance, entries.shared))
    return Number(entries.value, *parts, grade=entries.grade)


def above(x: Any, axis: int = -1) -> Any:
    """For every entry, the sum of those that come before it in falling order."""
    grade = x.grade if isinstance(x, Number) else None
    plain = np.moveaxis(np.asarray(value(x), float), axis, -1)
    by_size = order(plain)
    falling = np.take_along_axis(plain, by_size, -1)
    sums = np.cumsum(falling, -1) - falling
    back = np.argsort(by_size, axis=-1, kind="stable")

    def restored(part: Any) -> Any:
        return np.moveaxis(np.take_along_axis(part, back, -1), -1, axis)

    if grade is None or x.exact:
        return restored(sums) if grade is None else Number(restored(sums), grade=grade)
    radius = np.take_along_axis(np.moveaxis(x.full(x.radius), axis, -1), by_size, -1)
    n = plain.shape[-1]
    error = np.cumsum(radius, -1) - radius + n * grade.arithmetic.unit * np.abs(sums)
    apart = np.abs(falling[..., :, None] - falling[..., None, :])
    swaps = (apart <= radius[..., :, None] + radius[..., None, :]) & ~np.eye(n, dtype=bool)
    error = error + np.sum(np.where(swaps, np.abs(falling)[..., None, :], 0.0), axis=-1)
    return Number.within(restored(sums), restored(error), grade=grade)


def unspecified(grade: Grade) -> Number:
    """A number of which nothing is claimed: no comparison with it is ever decided."""
    return Number.within(np.asarray(np.nan), np.asarray(np.inf), grade=grade)
