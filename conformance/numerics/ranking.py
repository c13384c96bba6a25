"""Functions of the order of entries: largest, argsort, gather, and sums over larger entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numbers import Number, number, settled, value
from .parts import K, absent, finite
from .truths import Truth


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
    """For every entry, the sum of those that come before it in descending order."""
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


def ahead(w: Any, x: Any, then: Any = None, alike: Any = None) -> Any:
    """For every entry along the last axis, the sum of `w` where `x` is greater, or where it is equal and `then` is.

    Entries of the same `alike` are equal, whatever rounding does; where it may exchange others, each of these counts as
    an error. All is sorted, so that it takes the memory of a few rows.
    """
    given = [t for t in (w, x, then, alike) if t is not None]
    shape = np.broadcast_shapes(*(np.shape(value(t)) for t in given))
    keys = [np.broadcast_to(np.asarray(value(t), float), shape) for t in (x, then) if t is not None]
    sums = _Sums(*keys)
    doubt: Any = 0.0
    if isinstance(x, Number) and not x.exact and shape[-1]:
        radius, size = np.broadcast_to(x.radius, shape), np.broadcast_to(np.abs(value(w)), shape)
        found = _doubt(keys[0], radius, size, None if alike is None else np.broadcast_to(value(alike), shape))
        doubt = found if np.any(found) else 0.0
    if not isinstance(w, Number):
        found = sums.of(np.broadcast_to(w, shape))
        return found if absent(doubt) else Number.within(found.astype(float), doubt, grade=x.grade)
    n, unit = shape[-1], w.grade.arithmetic.unit

    def added(part: Any) -> Any:
        return part if absent(part) else sums.of(np.broadcast_to(part, shape))

    size = added(finite(np.abs(w.value)))
    worst, variance = added(w.worst) + n * unit * size + doubt, added(w.variance) + n / 3 * (unit * size) ** 2
    return settled(added(w.value), w.grade, worst, variance, added(w.shared) + doubt / K, roundings=0.0)


class _Sums:
    """Sums of what comes ahead of each entry along the last axis, in descending order of `x`, and then of `then`."""

    def __init__(self, x: Any, then: Any = None) -> None:
        keys = [-t for t in (x, then) if t is not None]
        self.order = np.lexsort(keys[::-1], -1)
        ranked = [np.take_along_axis(key, self.order, -1) for key in keys]
        fresh = np.ones(x.shape, bool)
        fresh[..., 1:] = np.any([key[..., 1:] != key[..., :-1] for key in ranked], axis=0)
        fresh &= ~np.isnan(ranked[0])  # nothing is greater than what is no number
        places = np.arange(x.shape[-1])
        self.first = np.where(np.isnan(ranked[0]), 0, np.maximum.accumulate(np.where(fresh, places, 0), -1))
        """Where in the order those begin that are equal to the one there."""
        ends = np.where(np.roll(fresh, -1, -1), places, x.shape[-1] - 1)
        self.last = np.minimum.accumulate(ends[..., ::-1], -1)[..., ::-1]
        """Where they end."""

    def of(self, w: Any) -> Any:
        """The sum of what comes ahead of each entry."""
        return self._restored(self._ahead(np.take_along_axis(w, self.order, -1)))

    def equal(self, w: Any) -> Any:
        """The sum of all that are equal to each entry, itself among them."""
        ranked = np.take_along_axis(w, self.order, -1)
        return self._restored(np.take_along_axis(np.cumsum(ranked, -1), self.last, -1) - self._ahead(ranked))

    def _ahead(self, ranked: Any) -> Any:
        return np.take_along_axis(_before(ranked), self.first, -1)

    def _restored(self, ranked: Any) -> Any:
        found = np.empty_like(ranked)
        np.put_along_axis(found, self.order, ranked, -1)
        return found


def _before(x: Any) -> Any:
    """The sum of what stands before each entry."""
    found = np.zeros(x.shape, np.result_type(x, np.int64) if x.dtype.kind in "bi" else x.dtype)
    np.cumsum(x[..., :-1], -1, out=found[..., 1:])
    return found


def _doubt(x: Any, radius: Any, w: Any, alike: Any) -> Any:
    """The sum of `w` at the other entries that rounding may exchange with each."""
    sure = radius == 0
    low, high = np.where(sure, x, x - radius), np.where(sure, x, x + radius)
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    rows = (np.reshape(t, (-1, x.shape[-1])) for t in (low, high, w))
    near = np.reshape([_near(*each) for each in zip(*rows, strict=True)], x.shape)
    if alike is not None:
        same = _Sums(np.asarray(alike, float)).equal(w)
    else:
        same = np.where(sure, _Sums(x).equal(np.where(sure, w, 0.0)), w)
    return np.maximum(near - same, 0.0)


def _near(low: Any, high: Any, w: Any) -> Any:
    """The sum of `w` over all whose stretch, from `low` to `high`, meets that of each."""
    rising, falling = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
    until, behind = (np.concatenate([[0.0], np.cumsum(w[order])]) for order in (rising, falling))
    met = until[np.searchsorted(low[rising], high, side="right")]
    return met - behind[np.searchsorted(high[falling], low, side="left")]
