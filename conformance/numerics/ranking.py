"""Functions of the order of entries: largest, argsort, gather, and the sum of larger entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numbers import (
    Number,
    number,
    value,
)
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
