"""A causal mask that is one key too wide: every query sees the one after it. Plain NumPy.

attnspec check examples/causal_off_by_one.py
"""

import numpy as np

from attnspec import adapter


@adapter("attention", framework="numpy", conventions={"causal_alignment": "bottom_right"})
def causal_off_by_one(q, k, v, *, causal=False):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1], dtype=q.dtype)
    if causal:
        q_len, k_len = scores.shape[-2:]
        position = np.arange(q_len)[:, None] + k_len - q_len
        scores = np.where(np.arange(k_len) <= position + 1, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=-1, keepdims=True)
    return (weights @ v / np.where(total > 0, total, 1)).astype(q.dtype)
