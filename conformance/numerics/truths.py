"""Three-valued booleans, and how far a claim is from holding.

A comparison of error-carrying numbers is true, false or undecided, entry by entry, and booleans combine by Kleene's
rules. Only a sure falsehood refutes a law.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
FEW = 1 << 16
"""Booleans that are quickly copied."""


def every(flags: Any) -> bool:
    """Whether all booleans of an array are true; of a small one in a tenth of the time that `np.all` takes."""
    return bool(flags.all()) if flags.size > FEW else b"\0" not in flags.tobytes()


def some(flags: Any) -> bool:
    """Whether any boolean of an array is true."""
    return bool(flags.any()) if flags.size > FEW else b"\1" in flags.tobytes()


class Truth:
    """Booleans of any shape: `can` says where a claim may be true, `must` where it surely is.

    `excess` measures a comparison entry by entry in units of its bound: the claim is surely false where it is over one.
    It is None where nothing was measured (a plain truth, a negation).
    """

    __slots__ = ("can", "excess", "must")
    __array_ufunc__ = None

    def __init__(self, can: Any, must: Any, excess: Any = None) -> None:
        self.can, self.must, self.excess = can, must, excess

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.can)

    @property
    def nbytes(self) -> int:
        return sum(np.asarray(part).nbytes for part in (self.can, self.must, self.excess) if part is not None)

    def map(self, f: Callable[[Any], Any]) -> Truth:
        """The booleans rearranged by `f`, which only moves entries."""
        return Truth(f(self.can), f(self.must), None if self.excess is None else f(self.excess))

    def __getitem__(self, index: Any) -> Truth:
        return self.map(lambda part: part[index])

    def __invert__(self) -> Truth:
        return Truth(~self.must, ~self.can)

    def __and__(self, other: Any) -> Truth:
        other = truth(other)
        return Truth(self.can & other.can, self.must & other.must, _joined(np.maximum, self, other))

    def __or__(self, other: Any) -> Truth:
        other = truth(other)
        return Truth(self.can | other.can, self.must | other.must, _joined(np.minimum, self, other))

    __rand__, __ror__ = __and__, __or__

    def over(self, reduce: Callable[..., Any], axis: int | None) -> Truth:
        """`np.all` or `np.any` along an axis."""
        join, worst = (np.logical_and, np.maximum) if reduce is np.all else (np.logical_or, np.minimum)
        excess = None if self.excess is None or not self.excess.size else worst.reduce(self.excess, axis)
        return Truth(join.reduce(self.can, axis), join.reduce(self.must, axis), excess)

    @property
    def refuted(self) -> bool:
        """Whether some entry is surely false."""
        return not every(self.can)

    @property
    def sure(self) -> bool:
        """Whether every entry is surely true."""
        return every(self.must)

    @property
    def worst(self) -> float:
        """The largest excess; infinite where a falsehood was not measured, and zero where nothing was."""
        if self.excess is None:
            return np.inf if self.refuted else 0.0
        return float(np.where(self.can, np.minimum(self.excess, 1.0), self.excess).max(initial=0.0))


def truth(x: Any) -> Truth:
    """Any truth value as a `Truth`; a plain one is sure."""
    if isinstance(x, Truth):
        return x
    plain = np.asarray(x, bool)
    return Truth(plain, plain)


def _joined(join: Callable[[Any, Any], Any], a: Truth, b: Truth) -> Any:
    if a.excess is None and b.excess is None:
        return None
    return join(_excess(a), _excess(b))


def _excess(t: Truth) -> Any:
    return np.where(t.must, 0.0, np.inf) if t.excess is None else t.excess
