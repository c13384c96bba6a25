"""States of recurrences: step by step, or as sums of what the steps have written.

Token by token, a delta rule's errors fade as what it holds is replaced.
A kernel that works in chunks has no states between its tokens: it adds up what was written under all keys, weighed by
what is kept of it, and looks up what is to be replaced in such a sum.
The terms may be far larger than their sum, and their roundings do not fade.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .grades import Grade
from .numbers import Number
from .parts import Array, K, finite


def recurred(a: Any, b: Any, start: Any, kept: Any = None) -> Any:
    """The states of s = a @ s + b: a [..., n, d, d], b [..., n, d, e], start [..., d, e]; [..., n, d, e].

    What is wrong in one state goes into all entries of the next, so errors count as shared by all of them.
    `kept` [..., n, d, 1] is the factor that is left of a row, where a is (1 - beta k k') times these factors, or these
    times it, as going back: with it, the states may as well be computed in chunks.
    """
    if not isinstance(b, Number):
        found = np.empty(b.shape)
        for t in range(b.shape[-3]):
            start = found[..., t, :, :] = a[..., t, :, :] @ start + b[..., t, :, :]
        return found
    value, worst, likely, state = np.empty(b.shape), np.empty(b.shape), np.empty(b.shape), start
    chunk = Chunk.of(start)
    for t in range(b.shape[-3]):
        step = a[..., t, :, :] @ state + b[..., t, :, :]
        value[..., t, :, :], worst[..., t, :, :], likely[..., t, :, :] = step.value, step.worst, step.worst
        if kept is not None:
            chunk = chunk.after(a.value[..., t, :, :], kept[..., t, :, :], state.value, step.value)
            worst[..., t, :, :] += chunk.worst
            likely[..., t, :, :] += np.minimum(chunk.worst, K * np.sqrt(chunk.variance))
        state = Number.within(step.value, step.worst, grade=b.grade)
    return Number(value, worst, 0.0, likely / K, grade=b.grade)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a chunk may add to the errors of states: its sums are rounded, and so is what is looked up in them."""

    sums: Sums
    looked_up: Array
    """The worst that came of looking up in rounded sums."""
    variance_of_looked_up: Array
    """Its variance [..., 1, e], the largest in any direction of the keys."""

    @classmethod
    def of(cls, start: Number) -> Chunk:
        nothing = np.zeros(start.value.shape)
        return cls(Sums.of(start), nothing, nothing[..., :1, :])

    def after(self, a: Array, kept: Number, before: Array, state: Array) -> Chunk:
        """One step later.

        A step takes beta k k' of the error of the sum, and 1 - beta k k' of what there is. Both are independent, so of
        variances no direction has more than the larger of the two while beta |k|^2 is at most one.
        """
        taken = kept.value * np.eye(a.shape[-1]) - a
        share = np.sqrt(np.sum(taken * taken, axis=(-2, -1), keepdims=True))  # of one key: its only singular value
        left = np.max((kept.value - share) ** 2, axis=-2, keepdims=True)
        variance, rounded = self.variance_of_looked_up, np.max(self.sums.variance, axis=-2, keepdims=True)
        return Chunk(
            self.sums.after(kept, state - kept.value * before),
            np.abs(a) @ self.looked_up + np.abs(taken) @ self.sums.worst,
            np.maximum(variance, left * variance + share * share * rounded),
        )

    @property
    def worst(self) -> Array:
        return self.sums.worst + self.looked_up

    @property
    def variance(self) -> Array:
        return self.sums.variance + self.variance_of_looked_up


@dataclass(frozen=True, slots=True)
class Sums:
    """The rounding of sums of all that was written.

    A term is a value that was written, times its weight: a product of d entries, times what is kept until now.
    That is one exponential of a difference, and not a product of the factors of the steps, so its error is that of one
    factor.
    Weights and values are rounded to the format of operands first; where every intermediate is stored, so are the
    product in the weight, what is kept, and both together.
    """

    size: Array
    """The sum of the sizes of the terms."""
    squares: Array
    """That of their squares."""
    faded: tuple[Array, Array]
    """Both again of the terms that are not of the last step, times the largest relative error of a factor so far."""
    error: Array
    """That error [..., d, 1]."""
    terms: int
    grade: Grade

    @classmethod
    def of(cls, start: Number) -> Sums:
        size = finite(np.abs(start.value))
        return cls(size, size * size, (0.0, 0.0), 0.0, 0, start.grade)

    def after(self, kept: Number, written: Array) -> Sums:
        """One step later: `kept` [..., d, 1] of what there was, and what it has `written` [..., d, e] beside it."""
        factor, added = np.abs(kept.value), finite(np.abs(written))
        worst = np.zeros(factor.shape) if kept.exact else kept.full(kept.worst)
        seen = factor > 2.0**self.grade.arithmetic.least
        error = np.maximum(self.error, np.divide(worst, factor, out=np.zeros(factor.shape), where=seen))
        size, squares = factor * self.size, factor * factor * self.squares
        faded = error * size, error * error * squares
        return Sums(size + added, squares + added * added, faded, error, self.terms + 1, self.grade)

    @property
    def units(self) -> list[float]:
        """The relative errors of a term, but for that of what is kept."""
        operand, stored = self.grade.operand, self.grade.stored
        own = [self.grade.arithmetic.unit] * (self.size.shape[-2] + 1)
        return [*own, *([operand.unit] * 2 if operand else []), *([stored.unit] * 3 if stored else [])]

    @property
    def worst(self) -> Array:
        return (sum(self.units) + self.terms * self.grade.arithmetic.unit) * self.size + self.faded[0]

    @property
    def variance(self) -> Array:
        """Terms are rounded independently, and so is the sum, once for each of them."""
        of_terms = sum(unit * unit for unit in self.units) * self.squares + self.faded[1]
        return (of_terms + self.terms * (self.grade.arithmetic.unit * self.size) ** 2) / 3
