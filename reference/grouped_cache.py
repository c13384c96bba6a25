"""A cache of codes in groups, each with a step and an offset, and a window of tokens that are kept as they were fed.

Liu et al. 2024, KIVI: a tuning-free asymmetric 2bit quantization for KV cache, arXiv:2402.02750, sections 3.2 and 3.3.
"""

import math

import numpy as np


def grouped_cache_attention(
    q,
    k,
    v,
    *,
    chunks,
    cache_bits,
    group_size,
    key_groups,
    value_groups,
    residual_length,
    window_left,
    beams,
    scale,
    grouping,
    own_chunk,
    residual,
    zero_point,
):
    """The outputs of all chunks: `[batch, heads, length, value_dim]`; arguments are those of `cached_attention`."""
    batch, heads, length, d = q.shape
    kv_heads = k.shape[1]
    unit = 1 if key_groups == value_groups == "channels" else group_size
    refuse(k, v, group_size, key_groups, value_groups, residual_length, unit)
    if beams is not None and chunks[0] % unit:
        raise ValueError("a group is of one row")
    s = 1 / math.sqrt(d) if scale is None else scale
    K, V = (represented(x, n, group_size, cache_bits, zero_point) for x, n in ((k, key_groups), (v, value_groups)))
    out = np.zeros((batch, heads, length, v.shape[3]))
    end = coded = 0
    for c, n in enumerate(chunks):
        start, before, end = end, coded, end + n
        coded = codes_after(end, before, residual_length, residual, unit, first=c == 0)
        read_as_fed = own_chunk == "as_fed" or (own_chunk == "first_as_fed" and c == 0)
        past_rows = np.arange(batch) if c == 0 or beams is None else np.asarray(beams)  # whose past a row has
        for b, h, t in np.ndindex(batch, heads, n):
            i, g = start + t, h // (heads // kv_heads) if grouping == "block" else h % kv_heads
            seen = np.arange(0 if window_left is None else max(i - window_left, 0), i + 1)
            owner = np.where(seen < chunks[0], past_rows[b], b)  # the first chunk alone comes from elsewhere
            in_codes = seen < np.where(seen < start, before, 0 if read_as_fed else coded)
            keys = np.where(in_codes[:, None], K[owner, g, seen], k[owner, g, seen])  # [seen, head_dim]
            values = np.where(in_codes[:, None], V[owner, g, seen], v[owner, g, seen])
            e = s * keys @ q[b, h, i]
            a = np.exp(e - e.max())
            out[b, h, i] = a / a.sum() @ values
    return out


def codes_after(end, before, residual_length, residual, unit, first):
    """How many tokens are in codes behind a chunk that ends at `end`, of which `before` were before it."""
    if residual == "sliding":
        coded = max(end - residual_length, 0)
    elif residual == "in_blocks":
        coded = end - end % max(residual_length, 1)
    else:
        coded = end if first or end - before >= residual_length else before
    return coded - coded % unit


def represented(x, groups, size, bits, zero_point):
    """What the codes of x [batch, kv_heads, length, dim] represent; tokens of no whole group are left as they are."""
    if groups == "tokens":
        whole = x.shape[2] - x.shape[2] % size
        turned = represented(np.swapaxes(x[:, :, :whole], 2, 3), "channels", size, bits, zero_point)
        return np.concatenate([np.swapaxes(turned, 2, 3), x[:, :, whole:]], axis=2)
    top = 2**bits - 1
    y = x.reshape(*x.shape[:3], -1, size)
    low, high = y.min(-1, keepdims=True), y.max(-1, keepdims=True)
    step, offset = (high - low) / top, low
    if zero_point == "whole_steps":
        far = np.where(abs(low) > abs(high), low, high)  # the end of the group that is farther from zero
        step = np.where(abs(low) > abs(high), 1, -1) * np.maximum(step, 1e-7)
        count = np.round(far / step)
        step, offset = np.where(count == 0, step, far / np.where(count == 0, 1, count)), np.where(count == 0, 0, far)
    codes = np.clip(np.round((y - offset) / np.where(step == 0, 1, step)), 0, top)
    return (codes * step + offset).reshape(x.shape)


def refuse(k, v, group_size, key_groups, value_groups, residual_length, unit):
    """`ValueError` for groups that are not whole."""
    sizes = [x.shape[3] for x, groups in ((k, key_groups), (v, value_groups)) if groups == "channels"]
    if group_size < 1 or any(n % group_size for n in sizes):
        raise ValueError("channels make up whole groups")
    if residual_length < 0 or residual_length % unit:
        raise ValueError("the window holds whole groups")
