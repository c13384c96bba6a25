"""Weighted averages with a bound: rows of weights against rows of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .codings import alike, coding_error
from .numbers import Number, flushed, number, settled, value
from .parts import Array, K, absent, all_finite, finite
from .product_errors import bias, operand_error
from .products import by_torch, distinct, product
from .ranges import in_own_range
from .truths import every, some

FEW = 60
"""Weights of a row that are compared each with each; more of them are sorted."""


def multiplicity(weights: Any, width: float) -> Any:
    """For every weight of a row, how many of the row have nearly its size (their logarithms fall in one bucket).

    Such weights are rounded alike; by Cauchy and Schwarz the factor makes the variance of their sum exact again.
    """
    n = weights.shape[-1]
    nowhere = -1e15 - np.arange(n)  # a weight of zero is tied with none
    bucket = np.where(weights > 0, np.floor(np.log(np.where(weights > 0, weights, 1.0)) / width), nowhere)
    ranked = np.sort(bucket, axis=-1)
    if every(ranked[..., 1:] != ranked[..., :-1]):
        return 1.0
    if not _each_with_each(bucket.size, n):
        return alike(bucket, -1)
    return np.sum(bucket[..., :, None] == bucket[..., None, :], axis=-1, dtype=float)


def _each_with_each(size: int, n: int) -> bool:
    """Whether rows are so short and few that each entry is compared with every other of its row."""
    return n <= FEW and size <= 1 << 18


def multiplicity_work(size: int, n: int) -> int:
    """The work of `multiplicity` on so many weights in rows of n."""
    return size * n // 4 if _each_with_each(size, n) else 15 * size


def average(weights: Any, x: Any, axis: int | None = None) -> Any:
    """The sum of `weights` times `x` over that of the weights: rows of weights `[..., q, n]` against `x [..., n, d]`.

    With `axis`, entry by entry along that axis.
    Zero where all weights are zero; an entry of no weight may hold anything.
    """
    if axis is not None:
        return _average_along(weights, x, axis)
    grade = next((t.grade for t in (weights, x) if isinstance(t, Number)), None)
    if not isinstance(x, Number) or x.exact:
        beside = np.shape(value(weights))
        x = x.map(lambda t: distinct(t, beside)) if isinstance(x, Number) else distinct(np.asarray(x), beside)
    w, v = value(weights), value(x)
    sums = _sums_by_torch(w) if grade is None and by_torch(w) else in_own_range(np.sum(w, axis=-1, keepdims=True))
    weighed = sums != 0
    everywhere = every(weighed)
    if not everywhere:
        sums = np.where(weighed, sums, 1.0)
    if grade is None and w.dtype == np.float32:  # the quickest way, where the last bits do not matter
        return np.where(weighed, product(w, v) / sums, np.float32(0))
    p = w / sums
    result = _weighted(p, v)
    if grade is None:
        return result if everywhere else np.where(weighed, result, 0.0)
    errors = _average_errors(number(weights, grade), number(x, grade), p, sums, finite(result))
    worst, variance, shared = errors if everywhere else (np.where(weighed, part, 0.0) for part in errors)
    reach = _reach(number(weights, grade), v)
    if not absent(reach):
        worst, shared = worst + reach, shared + reach / K
    result = result if everywhere else np.where(weighed, result, 0.0)
    return settled(result, grade, worst, variance, shared, roundings=0.0)


def _sums_by_torch(w: Any) -> Any:
    import torch

    return torch.sum(torch.from_numpy(w), -1, keepdim=True).numpy()


def _reach(w: Number, v: Any) -> Any:
    """A bound on an average where every weight is nominally zero, but some might not be; 0 elsewhere.

    What underflow may leave of a weight of zero does not count.
    """
    unweighed = np.logical_and.reduce(w.value == 0, axis=-1, keepdims=True)
    if not some(unweighed):
        return 0.0
    underflow = flushed(w.grade) + (w.grade.stored.tiny if w.grade.stored else 0.0)
    possible = (w.full(w.worst) > 8 * underflow) & unweighed
    return product(possible.astype(float), finite(np.abs(v))) if some(possible) else 0.0


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
    if all_finite(v):
        return product(p, v)
    result, used = product(p, finite(v)), (p != 0).astype(float)
    up, down, nans = (product(used, kind.astype(float)) > 0 for kind in (v == np.inf, v == -np.inf, np.isnan(v)))
    lost = np.isnan(p).any(-1, keepdims=True)
    result = np.where(up, np.inf, np.where(down, -np.inf, result))
    return np.where(nans | (up & down) | lost, np.nan, result)


def _weight_unit(w: Number, p: Any) -> Any:
    """How far weights are rounded, as a share of each: the unit of their format, or less for whole rows [..., q, 1].

    Where values become codes, weights do so too: some as shares of the largest one, others as shares of the sum.
    Powers of two are codes either way; a row of nothing but weights that are so near to powers of two that each
    becomes that power errs no more than it is away from it, and by what it errs already.
    """
    grade = w.grade
    if grade.weight is None:
        return 0.0
    if grade.values is None or not w.value.shape[-1]:
        return grade.weight.unit
    present = np.abs(p) > 1e-150
    top = np.max(np.abs(p), axis=-1, keepdims=True)
    shares = np.where(present, np.abs(p), 1.0)
    away = np.maximum(_from_a_power(shares), _from_a_power(shares / np.where(top > 0, top, 1.0)))
    erring = 0.0 if w.exact else w.full(w.worst) / np.where(w.value == 0, 1.0, np.abs(w.value))
    moved = np.max(np.where(present, away + 2 * erring, 0.0), axis=-1, keepdims=True)
    return np.where(moved <= grade.weight.unit / 4, moved, grade.weight.unit)


def _coded_weights(w: Number, shares: Any, sums: Any, size: Any, result: Any) -> tuple[Any, Any, Any]:
    """What weights that become integers of a scale add to the errors of an average: worst, variance, shared.

    The scale is that of the largest weight there can be, or of the largest so far, whose partial results are scaled
    down later: a weight errs by half a step of the largest at most, and by no more than itself.
    Those of less than half a step are lost, all in one direction; others err as they lie between two steps, those of
    the same quarter of a step together. The largest weights are codes, as far as they are the largest.
    The sum that is divided by may be that of the weights or of their codes.
    """
    coding, held = w.grade.weights, np.abs(w.value)
    assert coding is not None
    top = np.max(held, axis=-1, keepdims=True)
    half = coding.step * top
    own = 0.0 if w.exact else 2 * w.full(w.worst)
    error = np.where(held == top, np.minimum(own, half), np.minimum(half, held))
    lost = np.where(held + own >= half, 0.0, error) / np.abs(sums)
    kept = np.where(held + own >= half, error, 0.0) / np.abs(sums)
    together = alike(np.floor(held / np.where(top > 0, half / 2, 1.0)), -1) * kept * kept
    far = np.abs(result)

    def over(part: Any) -> Any:  # the sum of part * (|v| + |result|)
        return product(part, size) + far * np.sum(part, axis=-1, keepdims=True)

    squares = product(together, size * size) + 2 * far * product(together, size)
    variance = (squares + far * far * np.sum(together, axis=-1, keepdims=True)) / 3
    return over(lost + kept), variance, over(lost) / K


def _from_a_power(x: Any) -> Any:
    """How far positive numbers are from the nearest power of two, as a share of it."""
    return np.abs(x * np.exp2(-np.rint(np.log2(x))) - 1)


def _average_errors(w: Number, v: Number, p: Any, sums: Any, result: Any) -> tuple[Any, Any, Any]:
    """The errors of a weighted average: worst, variance, shared."""
    grade, n = w.grade, w.value.shape[-1]
    unit = grade.adding.unit
    unit_weight: Any = _weight_unit(w, p)
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
        moment = (
            product(a, squares) - 2 * result * product(a, held) + result * result * np.sum(a, axis=-1, keepdims=True)
        )
        return np.maximum(moment, 0.0)

    def linear(a: Any) -> Any:  # a bound on sum of a * |v - result|, after Cauchy and Schwarz
        return np.sqrt(np.sum(a, axis=-1, keepdims=True) * spread(a))

    summed = product(weight, size)
    rounding = summed + np.abs(result)
    worst = (unit_weight + unit_value) * summed + (2 * n + 2) * unit * rounding
    variance = n / 3 * unit * unit * (summed * summed + result * result) + 4 / 3 * (unit * result) ** 2
    shared: Any = bias(grade, unit_weight + unit_value) * summed
    ties = multiplicity(weight, max(grade.weight.unit / 4 if grade.weight else 0.0, 4 * unit)) if n > 1 else 1.0
    if grade.weight is not None or unit_value:
        variance = variance + (unit_weight**2 + unit_value**2) / 3 * product(ties * weight * weight, squares)
    if grade.values is not None:
        coded = coding_error(held, grade.values)
        worst = worst + product(weight, coded)
        variance = variance + product(ties * weight * weight, alike(np.abs(held), -2) * coded * coded) / 3
    if grade.weight is not None:  # weights below the format's range vanish
        lost = grade.weight.tiny * np.maximum(1.0, 1 / sums) * np.sum(size, axis=-2, keepdims=True)
        worst, shared = worst + lost, shared + lost / K
    if grade.weights is not None and n:
        added = _coded_weights(w, weight, sums, size, result)
        worst, variance, shared = worst + added[0], variance + added[1], shared + added[2]
    if not w.exact:
        worst = worst + linear(weight * relative(w.worst))
        if not absent(w.variance):
            variance = variance + spread(weight * weight * ties * growth * relative(w.variance / safe))
        if not absent(w.shared):  # does not cancel: partial results may be normalised by their logsumexps
            moved = weight * relative(w.shared)
            common = np.maximum(product(moved, size), linear(moved))
            worst, shared = worst + K * common, shared + common
        ghosts = np.where(present, 0.0, w.full(w.worst)) / np.abs(sums)
        if some(ghosts != 0):  # a weight that is nominally zero but might not be
            far = product(ghosts, size) + np.abs(result) * np.sum(ghosts, axis=-1, keepdims=True)
            worst, shared = worst + far, shared + far / K
    if not v.exact:
        worst = worst + product(weight, v.full(v.worst))
        variance = variance + (0.0 if absent(v.variance) else product(weight**2, v.full(v.variance)))
        shared = shared + (0.0 if absent(v.shared) else product(weight, v.full(v.shared)))
    return worst, variance, shared
