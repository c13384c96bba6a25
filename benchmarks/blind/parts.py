"""What the kernels have in common: right in all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def grouped(q: Array, x: Array) -> Array:
    """Heads of keys or values [batch, kv_heads, k_len, dim], one for each head of the queries."""
    return np.repeat(x, q.shape[1] // x.shape[1], axis=1)


def band(q_len: int, k_len: int, *, causal: bool = False, left: int | None = None, right: int | None = None) -> Array:
    """Which keys a query may see, the last of both aligned."""
    behind = np.arange(q_len)[:, None] + (k_len - q_len) - np.arange(k_len)
    seen = np.ones((q_len, k_len), bool)
    if causal:
        seen &= behind >= 0
    if left is not None:
        seen &= behind <= left
    if right is not None:
        seen &= -behind <= right
    return seen


def shares(scores: Array) -> Array:
    """The softmax of scores, zeros where all of them are minus infinity."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1)


def averaged(scores: Array, seen: Array, v: Array) -> Array:
    """The values averaged by the softmax of the scores of keys that are seen."""
    return (shares(np.where(seen, scores, -np.inf)) @ v).astype(v.dtype)


def scores_of(q: Array, k: Array, scale: float | None) -> Array:
    """The scaled products of queries and keys, for all heads of the queries."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    return q @ np.swapaxes(grouped(q, k), -1, -2) * np.float32(factor)
