"""The functions of claims: comparisons, counts, and tests against chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import SpecError
from ..numerics.budget import charge, joined_shape
from ..numerics.grades import FP64
from ..numerics.numbers import number, value
from ..numerics.truths import Truth
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
    """How often each integer below n occurs along an axis; booleans count as 0 and 1."""
    if isinstance(x, Truth) and np.any(x.can != x.must):
        raise SpecError("booleans in doubt cannot be counted")
    plain, n = np.moveaxis(np.asarray(x.must if isinstance(x, Truth) else value(x)), along(axis), -1), whole(n)
    charge(plain.size * max(n, 1))
    *rows, _ = plain.shape
    places = plain.astype(np.int64)
    counted = (places == plain) & (places >= 0) & (places < n)
    first = n * np.arange(math.prod(rows)).reshape(*rows, 1)
    return np.bincount((first + places)[counted], minlength=n * math.prod(rows)).reshape(*rows, n)


@FUNCTIONS(contextual=True, work=5)
def likely(env: Any, counts: Any, chances: Any) -> Any:
    """False if the counts are too improbable for all chances within their bounds, by Chernoff's bound."""
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
