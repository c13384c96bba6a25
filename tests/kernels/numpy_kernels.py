"""NumPy kernels of a serving stack."""

import numpy as np


def softmax(x):
    m = x.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(x - np.where(np.isfinite(m), m, 0))
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-30)


def decode_attention(q, k_cache, v_cache, cache_seqlens, sm_scale=None):
    """One step: q [batch, 1, heads, dim], caches [batch, max_len, kv_heads, dim], cache_seqlens [batch]."""
    b, s, h, d = q.shape
    g = k_cache.shape[2]
    scale = sm_scale if sm_scale is not None else 1 / np.sqrt(d)
    out = np.zeros((b, s, h, v_cache.shape[-1]), q.dtype)
    for i in range(b):
        n = int(cache_seqlens[i])
        keys = k_cache[i, :n].repeat(h // g, 1)
        values = v_cache[i, :n].repeat(h // g, 1)
        scores = np.einsum("shd,thd->hst", q[i], keys) * scale
        ahead = np.arange(n)[None] > np.arange(s)[:, None] + n - s
        scores[:, ahead] = -np.inf
        out[i] = np.einsum("hst,thd->shd", softmax(scores), values)
    return out


def paged_attention_v1(q, key_cache, value_cache, block_tables, seq_lens, scale=None):
    """Decode: q [batch, heads, dim], caches [blocks, block_size, kv_heads, dim], block_tables [batch, max_blocks]."""
    b, h, d = q.shape
    size, g = key_cache.shape[1:3]
    out = np.zeros((b, h, value_cache.shape[-1]), q.dtype)
    for i in range(b):
        n = int(seq_lens[i])
        if n == 0:
            continue
        blocks = block_tables[i, : -(-n // size)]
        k = key_cache[blocks].reshape(-1, g, d)[:n].repeat(h // g, 1)
        v = value_cache[blocks].reshape(-1, g, value_cache.shape[-1])[:n].repeat(h // g, 1)
        scores = np.einsum("hd,thd->ht", q[i], k) * (d**-0.5 if scale is None else scale)
        out[i] = np.einsum("ht,thd->hd", softmax(scores), v)
    return out


class OnlineAttention:
    """Attention with running maxima; the statistics of the last call stay in it."""

    def __init__(self, block=2):
        self.block, self.m, self.l = block, None, None

    def __call__(self, q, k, v, is_causal=False, sm_scale=None):
        """[batch, heads, length, dim]"""
        b, h, s, d = q.shape
        t = k.shape[2]
        k, v = (x.repeat(h // k.shape[1], 1).astype(np.float64) for x in (k, v))
        scale = d**-0.5 if sm_scale is None else sm_scale
        self.m = np.full((b, h, s, 1), -np.inf)
        self.l = np.zeros((b, h, s, 1))
        acc = np.zeros((b, h, s, v.shape[-1]))
        for start in range(0, t, self.block):
            own = slice(start, start + self.block)
            x = q.astype(np.float64) @ k[:, :, own].swapaxes(-1, -2) * scale
            if is_causal:
                ahead = np.arange(start, min(t, start + self.block))[None] > np.arange(s)[:, None] + t - s
                x = np.where(ahead, -np.inf, x)
            m = np.maximum(self.m, x.max(-1, keepdims=True))
            safe = np.where(np.isfinite(m), m, 0)
            p = np.exp(x - safe)
            old = np.exp(self.m - safe)
            self.l = self.l * old + p.sum(-1, keepdims=True)
            acc = acc * old + p @ v[:, :, own]
            self.m = m
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.l > 0, acc / self.l, 0).astype(q.dtype)


attention_online = OnlineAttention()
