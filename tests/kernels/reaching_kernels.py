"""Kernels in NumPy that are right but for what they read or write outside their arrays, or what else is in a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec import adapter

WORDS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


def declared(**more: Any) -> Any:
    return adapter(
        "attention", framework="numpy", dtypes=("float32",), conventions=WORDS, fixed={"causal": False}, **more
    )


def attended(q, k, v):
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def seen_from(x, places, shape, strides):
    """An array whose first entry is so many places behind that of `x`, in the memory that `x` is a part of."""
    whole = x
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    start = (x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // x.itemsize + places
    return np.lib.stride_tricks.as_strided(whole.reshape(-1)[max(start, 0) :], shape, strides)


@declared(tiles=(128, 64), splits=8)
def right(q, k, v):
    return attended(q, k, v)


@declared(tiles=(128, 64), splits=8)
def key_behind_the_splits_lost(q, k, v):
    lost = k.shape[2] == 8 * 64 + 1
    return attended(q, k[:, :, :-1], v[:, :, :-1]) if lost else attended(q, k, v)


@declared()
def reads_one_entry_behind(q, k, v):
    beyond = seen_from(v, v.size, (1,), (4,)) if v.base is not None else np.zeros(1, np.float32)
    return attended(q, k, v) + 0 * beyond


@declared()
def offsets_of_32_bits(q, k, v):
    def wrapped(x):
        offsets = [b * x.strides[0] // 4 for b in range(x.shape[0])]
        offsets = [(offset + 2**31) % 2**32 - 2**31 for offset in offsets]
        return np.stack([seen_from(x, max(offset, 0), x.shape[1:], x.strides[1:]) for offset in offsets])

    return attended(q, wrapped(k), wrapped(v))


@declared(batch_invariant=True)
def rows_of_many_items_are_others(q, k, v):
    return attended(q, k, v) * np.float32(1 + 2**-23 if len(q) > 2 else 1)


SCORES: dict[Any, Any] = {}


@declared()
def scores_that_threads_share(q, k, v):
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    shape = (*q.shape[:3], k.shape[2])
    s = SCORES.setdefault(shape, np.empty(shape, np.float32))
    np.matmul(q, k.swapaxes(-1, -2), out=s)
    s *= np.float32(q.shape[-1] ** -0.5)
    np.exp(s - s.max(-1, keepdims=True), out=s)
    return s / s.sum(-1, keepdims=True) @ v
