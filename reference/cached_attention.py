"""Attention with a cache: a sequence is fed chunk by chunk, and what was fed is kept.

Shazeer 2019, Fast transformer decoding: one write-head is all you need, arXiv:1911.02150, section 2.4.
The window: Jiang et al. 2023, Mistral 7B, arXiv:2310.06825, section 2.
"""

import math

import numpy as np

from .attention import codes_of
from .grouped_cache import grouped_cache_attention


def cached_attention(
    q,
    k,
    v,
    *,
    chunks,
    mask=None,
    capacity=None,
    window_left=None,
    beams=None,
    scale=None,
    q_scale=None,
    k_scale=None,
    v_scale=None,
    out_scale=None,
    kept=None,
    cache_dtype=None,
    scale_policy=None,
    least_scale=0.0,
    cache_bits=8,
    group_size=None,
    key_groups="channels",
    value_groups="channels",
    residual_length=0,
    grouping="block",
    own_chunk="as_kept",
    least_code="mirrored",
    residual="emptied",
    zero_point="least_number",
):
    """The outputs of all chunks: `[batch, heads, length, value_dim]`.

    q [batch, heads, length, head_dim], k [batch, kv_heads, length, head_dim], v [batch, kv_heads, length, value_dim];
    mask (True: may attend) broadcasts to [batch, heads, length, length]; beams [batch], the row that each row goes on
    from after the first chunk. A query that may see no key returns NaN.
    Of codes, `q_scale`, `k_scale` and `v_scale` have the axes of q, k and v, each of full length or 1.
    With an `out_scale` [1, heads or 1, 1, 1] the output is codes in float8_e4m3fn.
    With `kept` [batch, chunks], an item keeps so many of the first tokens of each chunk, and the others are taken out.
    With a `cache_dtype` of float8_e4m3fn or int8 the cache keeps codes of k / k_scale and v / v_scale; without scales,
    the largest size of the first chunk becomes the largest code, or with the `scale_policy` `running` that of
    all chunks up to each, which is written by it. Such a scale is at least the `least_scale`.
    Integers have `cache_bits`, 8 or 4.
    With a `group_size` the cache keeps codes of `cache_bits` with a step and an offset for each group of so many
    channels of a token or tokens of a channel, and about `residual_length` of the latest tokens as they were fed.
    """
    if group_size is not None:
        refuse(chunks, q.shape[2], q.shape[1], k.shape[1], beams, mask, kept)
        return grouped_cache_attention(
            q,
            k,
            v,
            chunks=chunks,
            cache_bits=cache_bits,
            group_size=group_size,
            key_groups=key_groups,
            value_groups=value_groups,
            residual_length=residual_length,
            window_left=window_left,
            beams=beams,
            scale=scale,
            grouping=grouping,
            own_chunk=own_chunk,
            residual=residual,
            zero_point=zero_point,
        )
    if cache_dtype is not None:
        ends = np.cumsum(chunks)
        reach = np.repeat(ends if scale_policy == "running" else ends[:1].repeat(len(ends)), chunks)
        k_kept, v_kept = (
            coded(x, s, cache_dtype, reach, least_code, least_scale, cache_bits)
            for x, s in ((k, k_scale), (v, v_scale))
        )
    else:
        k = k_kept = k if k_scale is None else k * k_scale
        v = v_kept = v if v_scale is None else v * v_scale
    q = q if q_scale is None else q * q_scale
    batch, heads, length, d = q.shape
    kv_heads = k.shape[1]
    refuse(chunks, length, heads, kv_heads, beams, mask, kept)
    s = 1 / math.sqrt(d) if scale is None else scale
    kept = np.tile(chunks, (batch, 1)) if kept is None else kept
    mask = np.broadcast_to(True if mask is None else mask, (batch, heads, length, length))

    K, V = list(k[:, :, :0]), list(v[:, :, :0])  # the cache of each item, [kv_heads, tokens, head_dim]
    out = np.full((batch, heads, length, v.shape[3]), np.nan)
    start = 0
    for c, n in enumerate(chunks):
        for b in range(batch):
            past = K[b].shape[1]
            as_fed = own_chunk == "as_fed" or (own_chunk == "first_as_fed" and c == 0)
            k_own, v_own = (k, v) if as_fed else (k_kept, v_kept)
            k_past, v_past = K[b], V[b]
            K[b] = np.concatenate([k_past, k_own[b, :, start : start + n]], axis=1)  # [kv_heads, past + n, head_dim]
            V[b] = np.concatenate([v_past, v_own[b, :, start : start + n]], axis=1)
            if capacity is not None and past + n > capacity:
                raise ValueError("the cache is full")
            for h, t in np.ndindex(heads, n):
                i, g = past + t, h // (heads // kv_heads) if grouping == "block" else h % kv_heads
                first = 0 if window_left is None else max(i - window_left, 0)
                seen = [j for j in range(first, i + 1) if mask[b, h, start + t, j]]
                if seen:
                    e = s * K[b][g, seen] @ q[b, h, start + t]  # [len(seen)]
                    a = np.exp(e - e.max())
                    out[b, h, start + t] = a / a.sum() @ V[b][g, seen]
            own = slice(start, start + kept[b][c])
            K[b] = np.concatenate([k_past, k_kept[b, :, own]], axis=1)
            V[b] = np.concatenate([v_past, v_kept[b, :, own]], axis=1)
        if start == 0 and beams is not None:
            K, V = [K[b] for b in beams], [V[b] for b in beams]
        start += n
    return codes_of(out, out_scale)


def coded(x, scale, dtype, reach, least_code, least_scale=0.0, bits=8):
    """What is left of x [batch, heads, length, size] in codes of x / scale.

    Without a scale, that of a token is made of all tokens up to its reach [length].

    Micikevicius et al. 2022, FP8 formats for deep learning, arXiv:2209.05433, section 3.
    """
    if bits != 8 and dtype != "int8":
        raise ValueError("integers alone have four bits")
    largest = 448 if dtype == "float8_e4m3fn" else 2 ** (bits - 1) - 1
    found = [[max(abs(x[:, :, :n]).max() / largest, least_scale) or 1.0 / largest] for n in reach]
    s = np.asarray(found if scale is None else scale)
    if np.any(s <= 0) and scale is not None:
        raise ValueError("scales are positive")
    y = x / s
    _, exponent = np.frexp(y)  # |y| in [2^(exponent - 1), 2^exponent)
    unit = np.exp2(np.maximum(exponent - 1, -6) - 3.0) if dtype == "float8_e4m3fn" else 1.0
    least = -largest - 1 if dtype == "int8" and least_code == "one_more" else -largest
    return np.clip(np.round(y / unit) * unit, least, largest) * s


def refuse(chunks, length, heads, kv_heads, beams, mask, kept):
    """`ValueError` for what is outside the domain, but for a cache that is too small."""
    if sum(chunks) != length or any(n < 1 for n in chunks):
        raise ValueError("the chunks add up to the length")
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError("the heads are a multiple of those of the keys")
    if beams is not None and mask is not None:
        raise ValueError("rows with masks of their own are not exchanged")
    if kept is not None and (mask is not None or beams is not None):
        raise ValueError("items that keep a part have no mask, and their rows are not exchanged")
    if kept is not None and (np.any(kept < 0) or np.any(kept > np.asarray(chunks))):
        raise ValueError("an item keeps a part of each chunk")
