"""Kernels on NumPy as people write them, each with an interface that is known: no adapter is needed.

attnspec check examples/kernels/numpy_kernels.py:single_prefill_with_kv_cache
"""

import numpy as np


def softmax(scores):
    """The weights; a query that sees nothing has none."""
    terms = np.exp(scores - np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), np.finfo(scores.dtype).min))
    return terms / np.maximum(terms.sum(-1, keepdims=True), np.finfo(scores.dtype).tiny)


def single_prefill_with_kv_cache(q, k, v, causal=False, sm_scale=None, window_left=-1, logits_soft_cap=None):
    """[length, heads, dim], without a batch."""
    k, v = (x.repeat(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = np.einsum("shd,thd->hst", q, k) * (q.shape[-1] ** -0.5 if sm_scale is None else sm_scale)
    if logits_soft_cap:
        scores = logits_soft_cap * np.tanh(scores / logits_soft_cap)
    place = np.arange(len(q))[:, None] + len(k) - len(q) - np.arange(len(k))
    hidden = ((place < 0) & causal) | ((place > window_left) & (window_left >= 0))
    weights = softmax(np.where(hidden, -np.inf, scores))
    return np.einsum("hst,thd->shd", weights, v).astype(q.dtype)


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale=None, causal=False
):
    """Items one after the other, found by the running sums of their lengths."""
    out = np.zeros((*q.shape[:2], v.shape[2]), q.dtype)
    for item in range(len(cu_seqlens_q) - 1):
        own = slice(cu_seqlens_q[item], cu_seqlens_q[item + 1])
        seen = slice(cu_seqlens_k[item], cu_seqlens_k[item + 1])
        out[own] = single_prefill_with_kv_cache(q[own], k[seen], v[seen], causal, softmax_scale)
    return out


def dot_product_attention(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False):
    """[batch, length, heads, dim], with the parameters of jax.nn.dot_product_attention."""
    key, value = (x.repeat(query.shape[2] // key.shape[2], 2) for x in (key, value))
    scores = np.einsum("bshd,bthd->bhst", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if is_causal:
        scores = np.where(np.tri(query.shape[1], key.shape[1], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    return np.einsum("bhst,bthd->bshd", softmax(scores), value).astype(query.dtype)
