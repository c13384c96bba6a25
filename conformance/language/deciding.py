"""The functions of claims: comparisons, counts, and tests against chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import SpecError
from ..numerics.budget import charge, joined_shape
from ..numerics.grades import FP64
from ..numerics.numbers import Number, number, value
from ..numerics.truths import Truth, every
from .registry import Functions, along, shape_of, whole

FUNCTIONS = Functions()


@FUNCTIONS()
def identical(a: Any, b: Any) -> bool:
    """One boolean: whether all bits are the same."""
    if isinstance(a, Truth) or isinstance(b, Truth):
        raise SpecError("identical takes numbers; compare booleans with ==")
    joined_shape(shape_of(a), shape_of(b))
    x, y = np.broadcast_arrays(value(a), value(b))
    return bool(np.all((x == y) | ((x != x) & (y != y))))


@FUNCTIONS()
def within(a: Any, b: Any, tolerance: Any) -> Any:
    """Closer than a declared tolerance, for claims without a derived bound."""
    joined_shape(shape_of(a), shape_of(b), shape_of(tolerance))
    gap = abs(number(a, FP64) - number(b, FP64))
    return gap.value <= value(tolerance)


@FUNCTIONS()
def counts(x: Any, n: Any, axis: Any = -1) -> Any:
    """How often each integer below n occurs along an axis; booleans count as 0 and 1, and undecided ones as either."""
    axis, n = along(axis), whole(n)
    if not isinstance(x, Truth):
        return _counted(np.moveaxis(np.asarray(value(x)), axis, -1), n)
    decided = _counted(np.moveaxis(np.asarray(x.must), axis, -1), n)
    if every(np.equal(x.can, x.must)):
        return decided
    other = _counted(np.moveaxis(np.asarray(x.can), axis, -1), n)
    return Number.within((decided + other) / 2, np.abs(decided - other) / 2)


def _counted(plain: Any, n: int) -> Any:
    """How often each integer below n occurs along the last axis."""
    charge(plain.size * max(n, 1))
    *rows, _ = plain.shape
    places = plain.astype(np.int64)
    counted = (places == plain) & (places >= 0) & (places < n)
    first = n * np.arange(math.prod(rows)).reshape(*rows, 1)
    return np.bincount((first + places)[counted], minlength=n * math.prod(rows)).reshape(*rows, n)


@FUNCTIONS(contextual=True, work=5)
def likely(env: Any, counts: Any, chances: Any) -> Any:
    """False if counts, within their bounds, are too improbable for all chances within theirs, by Chernoff's bound."""
    joined_shape(shape_of(counts), shape_of(chances))
    observed, chances = number(counts, FP64), number(chances, FP64)
    n = np.sum(observed.value, axis=-1, keepdims=True)
    share, open_ = (
        np.divide(part, n, out=np.zeros_like(part, float), where=n > 0)
        for part in (observed.value, np.broadcast_to(observed.radius, observed.value.shape))
    )
    radius = np.nan_to_num(chances.radius, nan=np.inf, posinf=np.inf)
    least, most = chances.value - radius, chances.value + radius
    share = np.clip(np.clip(share, least, most), share - open_, share + open_)  # of both, what is closest to the other
    expected = np.clip(np.clip(share, least, most), 0.0, 1.0)
    surprise = _divergence(share, expected) + _divergence(1 - share, 1 - expected)
    return n * surprise <= math.log(2 * expected.size / env.false_alarm)


def _divergence(p: Any, q: Any) -> Any:
    return np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0) / np.maximum(q, 1e-300)), 0.0)
