"""Softmax and attention in NumPy, judged by vectors: python check.py [-v] DIR."""

import attnspec_vectors
import numpy as np


def softmax(x):
    """Shares of x [..., n] of any dtype, in float32; a row of minus infinities gives zeros."""
    x = np.asarray(x, np.float32)
    high = x.max(-1, keepdims=True)
    terms = np.exp(x - np.where(np.isfinite(high), high, 0))
    total = terms.sum(-1, keepdims=True)
    return terms / np.where(total > 0, total, 1)


def attention(q, k, v, *, causal=False, scale=None):
    """Attention of q [batch, heads, q_len, head_dim] to k and v [batch, kv_heads, k_len, head_dim or value_dim]."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    factor = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    scores = factor * (q @ np.swapaxes(k, -1, -2))
    if causal:
        last = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = np.where(np.arange(k.shape[2]) <= last, scores, np.float32(-np.inf))
    return softmax(scores) @ v if k.shape[2] else np.zeros((*q.shape[:3], v.shape[3]), q.dtype)


if __name__ == "__main__":
    raise SystemExit(attnspec_vectors.main({"softmax": softmax, "attention": attention}))
