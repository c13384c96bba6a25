"""The draws of the language, which say how cases are drawn.

A draw of one number picks among counted choices, simplest first, from whatever `Source` the case is drawn from: a
stream, a covering array, Hypothesis, or the picks of a stored case. A draw of an array always reads a stream.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..numerics.budget import joined_shape
from ..numerics.numbers import value
from .registry import Function, dimensions, shape_of, whole


class Source(Protocol):
    """Where one draw comes from."""

    def pick(self, count: int) -> int: ...

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]: ...

    def uniform(self, shape: tuple[int, ...]) -> NDArray[np.float64]: ...

    def below(self, limit: int, shape: tuple[int, ...]) -> NDArray[np.int64]: ...

    def permutation(self, n: int) -> NDArray[np.int64]: ...


def between(source: Source, a: Any, b: Any) -> int:
    """An integer from a to b, both included."""
    low, high = whole(a), whole(b)
    return low + source.pick(max(high - low, 0) + 1)


def choice(source: Source, *x: Any) -> Any:
    """One of the given values; the first is the default."""
    if not x:
        raise SpecError("choice takes at least one value")
    return x[source.pick(len(x))]


def maybe(source: Source, x: Any, otherwise: Any) -> Any:
    """x, or the other value, which is the default."""
    return x if source.pick(2) else otherwise


def normal(source: Source, *n: Any, spread: Any = 1) -> Any:
    """Normal numbers with mean 0 and standard deviation `spread`, in the shape n."""
    shape = dimensions(n, 2)
    joined_shape(shape, shape_of(spread))
    return source.normal(shape) * value(spread)


def flags(source: Source, *n: Any, chance: Any = 0.7) -> Any:
    """Booleans, each true with that probability."""
    shape = dimensions(n)
    joined_shape(shape, shape_of(chance))
    return source.uniform(shape) < value(chance)


def indices(source: Source, limit: Any, *n: Any) -> Any:
    """Integers from 0 to the limit, which is not included."""
    return source.below(whole(limit), dimensions(n))


def permutation(source: Source, n: Any) -> Any:
    """The integers below n in random order."""
    return source.permutation(dimensions((n,), 12)[0])


def partition(source: Source, n: Any, count: Any = None) -> Any:
    """Positive integers with the sum n; with `count`, that many integers, which may be zero."""
    n = dimensions((n,))[0]
    if count is not None:
        (count,) = dimensions((count,))
        return np.bincount(source.below(count, (n,)), minlength=count).astype(np.int64)
    cuts = np.flatnonzero(source.uniform((max(n - 1, 0),)) < 0.5) + 1
    return np.diff(np.concatenate([[0], cuts, [n]])).astype(np.int64) if n else np.zeros(0, np.int64)


def like(source: Source, x: Any) -> Any:
    """New normal numbers in the shape of x."""
    return source.normal(dimensions(shape_of(x), 3))


def every(source: Source, a: Any, b: Any) -> int:
    """In a scenario: one case for each integer from a to b."""
    return between(source, a, b)


def _draw(f: Any) -> Function:
    full = inspect.signature(f)
    signature = full.replace(parameters=list(full.parameters.values())[1:])
    return Function(f.__name__, f, signature, " ".join((f.__doc__ or "").split()))


DRAWS = {
    f.__name__: _draw(f) for f in (between, choice, maybe, normal, flags, indices, permutation, partition, like, every)
}


def choices(name: str, node: ast.Call) -> int | None:
    """How many values a draw of one number has, where the text says so."""
    if name == "choice":
        return len(node.args)
    if name == "maybe":
        return 2
    if name in ("between", "every"):
        try:
            low, high = (ast.literal_eval(a) for a in node.args)
            return max(int(high) - int(low) + 1, 1)
        except (ValueError, TypeError):
            return None
    return None
