"""The functions that move and copy entries, and those that make arrays."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..numerics import ranking
from ..numerics.budget import OPERATION, charge, spend
from ..numerics.numbers import Number, common, number, value
from ..numerics.parts import absent
from ..numerics.streams import Stream
from ..numerics.truths import Truth, truth
from .registry import Functions, along, dimensions, rearranged, shape_of, whole

FUNCTIONS = Functions()
KEPT = 1 << 14
"""Random numbers of a seed up to which they are kept for the next one who asks for them."""


# Shape


@FUNCTIONS()
def size(x: Any, axis: Any = -1) -> int:
    """The length along an axis; 1 for a single number."""
    return shape_of(x)[whole(axis)] if shape_of(x) else 1


@FUNCTIONS()
def ndim(x: Any) -> int:
    """The number of axes; 0 for a single number."""
    return len(shape_of(x))


@FUNCTIONS()
def single(x: Any) -> bool:
    """Whether x is a single number or boolean, not an array."""
    return shape_of(x) == ()


@FUNCTIONS()
def transpose(x: Any) -> Any:
    """The array with its last two axes swapped."""
    return rearranged(x, lambda t: np.swapaxes(t, -1, -2))


@FUNCTIONS()
def permute(x: Any, *axes: Any) -> Any:
    """The array with its axes in another order."""
    return rearranged(x, lambda t: np.transpose(t, tuple(map(whole, axes))))


@FUNCTIONS()
def reshape(x: Any, *shape: Any) -> Any:
    """The same entries in another shape."""
    return rearranged(x, lambda t: np.reshape(t, tuple(map(whole, shape))))


@FUNCTIONS()
def repeat(x: Any, n: Any, axis: Any = -1) -> Any:
    """Every entry along an axis, repeated n times."""
    n = whole(n)
    _grow(x, n)
    return x if n == 1 else rearranged(_alike(x), lambda t: np.repeat(t, max(n, 0), along(axis)))


@FUNCTIONS()
def tile(x: Any, n: Any, axis: Any = -1) -> Any:
    """The whole array along an axis, repeated n times."""
    n = whole(n)
    _grow(x, n)
    spend(max(n, 0) * OPERATION // 2)
    return x if n == 1 else rearranged(_alike(x), lambda t: np.concatenate([t] * n, along(axis)))


def _grow(x: Any, times: int) -> None:
    charge(math.prod(shape_of(x)) * max(times, 1))


def _alike(x: Any) -> Any:
    """`x` about to be copied: copies err alike."""
    return common(x) if isinstance(x, Number) else x


@FUNCTIONS()
def concat(x: Any, y: Any, axis: Any = -1) -> Any:
    """The first array followed by the second, along an axis."""
    charge(math.prod(shape_of(x)) + math.prod(shape_of(y)))
    if isinstance(x, Truth) or isinstance(y, Truth):
        a, b = truth(x), truth(y)
        return Truth(np.concatenate([a.can, b.can], along(axis)), np.concatenate([a.must, b.must], along(axis)))
    if not isinstance(x, Number) and not isinstance(y, Number):
        return np.concatenate([x, y], along(axis))
    grade = x.grade if isinstance(x, Number) else y.grade
    x, y = number(x, grade), number(y, grade)

    def joined(a: Any, b: Any) -> Any:
        return 0.0 if absent(a) and absent(b) else np.concatenate([_filled(x, a), _filled(y, b)], along(axis))

    parts = (joined(x.worst, y.worst), joined(x.variance, y.variance), joined(x.shared, y.shared))
    return Number(np.concatenate([x.value, y.value], along(axis)), *parts, grade=grade)


def _filled(x: Number, part: Any) -> Any:
    return np.broadcast_to(part, x.shape)


@FUNCTIONS()
def gather(x: Any, i: Any, axis: Any = -1) -> Any:
    """The entries at the given indices along an axis; an entry with an undecided index has an infinite bound."""
    index = np.asarray(value(i))
    if not np.array_equal(index.astype(np.int64), index):
        raise SpecError("an index is not an integer")
    if shape_of(x):
        charge(math.prod(shape_of(x)) // max(shape_of(x)[along(axis)], 1) * index.size)
    if shape_of(x) == () or isinstance(x, Truth):
        return rearranged(x, lambda t: np.take(t, index.astype(np.int64), along(axis)))
    return ranking.taken(x, i, along(axis))


# Making


@FUNCTIONS("range")
def _range(a: Any, *b: Any) -> Any:
    """The integers below a, or from a to below b."""
    if len(b) > 1:
        raise SpecError("range takes one number or two")
    low, high = (whole(a), whole(b[0])) if b else (0, whole(a))
    charge(max(high - low, 0))
    return np.arange(low, high, dtype=np.int64)


@FUNCTIONS()
def full(x: Any, *shape: Any) -> Any:
    """An array of a shape, filled with one number or boolean."""
    measured = dimensions(shape)
    if isinstance(x, Number | Truth):
        return (common(x) if isinstance(x, Number) else x).map(lambda t: np.full(measured, t))
    return np.full(measured, x)


@FUNCTIONS()
def eye(n: Any) -> Any:
    """The identity matrix."""
    charge(whole(n) ** 2)
    return np.eye(whole(n))


@FUNCTIONS()
def noise(seed: Any, *shape: Any) -> Any:
    """Uniform numbers from 0 to 1, in a shape or in the shape of an array, for definitions of random outputs."""
    like = shape_of(shape[0]) if len(shape) == 1 else ()
    own = dimensions(like or shape)
    return (_noise if math.prod(own) <= KEPT else _noise.__wrapped__)(whole(seed), own)


@functools.lru_cache(64)
def _noise(seed: int, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The numbers of a seed, which the mistakes and the laws of a case ask for again and again."""
    found = Stream("noise", seed).uniform(shape)
    found.flags.writeable = False
    return found
