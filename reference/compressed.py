"""Compressed keys and what is selected by them: Yuan et al. 2025, arXiv:2502.11089, equations 7 to 10, one by one."""

import math

import numpy as np

from .attention import shares


def compressed(block, positions, matrix, second):
    """One vector [size] of a block [block_size, size], by its map, or by its mean where `matrix` is a number."""
    placed = block + positions
    one = placed.mean(0) if np.ndim(matrix) == 0 else np.einsum("rd,rde->e", placed, matrix)
    return one if np.ndim(second) == 0 else np.maximum(one, 0) @ second


def compressed_attention(
    q,
    k,
    v,
    k_positions=0.0,
    v_positions=0.0,
    k_map=0.0,
    v_map=0.0,
    k_second=0.0,
    v_second=0.0,
    *,
    stride,
    block_size,
    select_size,
    scale=None,
):
    """Attention to blocks of keys that a map compresses, and the importance of the blocks that they overlap.

    q [batch, heads, q_len, head_dim], k [batch, kv_heads, k_len, head_dim], v [batch, kv_heads, k_len, value_dim],
    positions [kv_heads, block_size, size], maps [kv_heads, block_size, size, hidden], second [kv_heads, hidden, size].
    Returns out [batch, heads, q_len, value_dim] and importance [batch, kv_heads, q_len, blocks of select_size keys].
    """
    batch, heads, q_len, d = q.shape
    kv_heads, k_len = k.shape[1:3]
    if k.shape[:3] != v.shape[:3] or k.shape[3] != d:
        raise ValueError("queries, keys and values belong together")
    group, s = heads // kv_heads, 1 / math.sqrt(d) if scale is None else scale
    of_keys, of_values = (
        [[np.asarray(x)[g] if np.ndim(x) else x for x in arrays] for g in range(kv_heads)]
        for arrays in ((k_positions, k_map, k_second), (v_positions, v_map, v_second))
    )
    out = np.zeros((batch, heads, q_len, v.shape[3]))
    importance = np.zeros((batch, kv_heads, q_len, -(-k_len // select_size)))
    for b, h, i in np.ndindex(batch, heads, q_len):
        g, t = h // group, k_len - q_len + i
        blocks = [slice(a, a + block_size) for a in range(0, t + 2 - block_size, stride)]
        if not blocks:
            continue
        keys, values = (
            np.stack([compressed(x[b, g, block], *maps[g]) for block in blocks])
            for x, maps in ((k, of_keys), (v, of_values))
        )
        p = shares(s * keys @ q[b, h, i], None)[0]
        out[b, h, i] = p @ values
        for j, m, n in np.ndindex(importance.shape[3], select_size // stride, block_size // stride):
            number = select_size // stride * (j + 1) - m - n
            if 1 <= number <= len(blocks):
                importance[b, g, i, j] += p[number - 1]
    return {"out": out, "importance": importance}
