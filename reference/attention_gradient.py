"""The backward pass of scaled dot-product attention, one query at a time.

Dao 2023, FlashAttention-2, arXiv:2307.08691, algorithm 2, lines 10 to 17 for tiles of one row: from dO, and
D = rowsum(dO o O), follow dP = dO V^T, dS = P o (dP - D), and so dQ = s dS K, dK = s dS^T Q and dV = P^T dO.
"""

import math

import numpy as np

from .attention import shares, within


def attention_gradient(
    q,
    k,
    v,
    d_out,
    *,
    scale=None,
    mask=None,
    bias=None,
    sink=None,
    causal=False,
    window_left=None,
    window_right=None,
    softcap=None,
    d_lse=None,
    causal_alignment="bottom_right",
    empty_row="zeros",
    grouping="block",
):
    """The gradients of sum(out * d_out): d_q, d_k, d_v, d_bias and d_sink, in the shapes of what they belong to.

    q [batch, heads, q_len, head_dim], k [batch, kv_heads, k_len, head_dim], v [batch, kv_heads, k_len, value_dim],
    d_out [batch, heads, q_len, value_dim]; mask (True: may attend) and bias broadcast to [batch, heads, q_len, k_len];
    sink [heads]. Without a bias or a sink, its gradient is zero.
    With `d_lse` [batch, heads, q_len] they are the gradients of sum(out * d_out) + sum(lse * d_lse).
    """
    batch, heads, q_len, d = q.shape
    kv_heads, k_len = k.shape[1:3]
    if d_out.shape != (batch, heads, q_len, v.shape[3]) or k.shape[3] != d or heads % kv_heads:
        raise ValueError(f"a gradient of the shape {d_out.shape} for queries {q.shape}, keys {k.shape}, {v.shape}")
    if d_lse is not None and d_lse.shape != q.shape[:3]:
        raise ValueError(f"a gradient of the logsumexp of the shape {d_lse.shape} for queries {q.shape}")
    s = 1 / math.sqrt(d) if scale is None else scale
    offset = k_len - q_len if causal_alignment == "bottom_right" else 0
    shape = (batch, heads, q_len, k_len)
    mask = np.broadcast_to(True if mask is None else mask, shape)
    B = np.broadcast_to(0.0 if bias is None else bias, shape)

    dQ, dK, dV = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    dB, dsink = np.zeros(shape), np.zeros(heads)
    for b, h, i in np.ndindex(batch, heads, q_len):
        g = h // (heads // kv_heads) if grouping == "block" else h % kv_heads
        Q, dO = q[b, h, i], d_out[b, h, i]
        seen = [
            j
            for j in range(k_len)
            if mask[b, h, i, j]
            and B[b, h, i, j] > -math.inf
            and within(i + offset, j, causal, window_left, window_right)
        ]
        if not seen:
            if sink is None:
                dQ[b, h, i] += through_nothing(empty_row, s, softcap, Q, k[b, g], v[b, g], dO, dK[b, g], dV[b, g])
            continue
        K, V = k[b, g, seen], v[b, g, seen]
        S, slope = capped(s * K @ Q, softcap)  # [len(seen)]
        P, _ = shares(S + B[b, h, i, seen], None if sink is None else sink[h])
        O = P @ V  # noqa: E741 - as in the paper
        D = dO @ O
        dP = V @ dO
        dS = P * (dP - D + (0 if d_lse is None else d_lse[b, h, i]))
        dB[b, h, i, seen] = dS
        dQ[b, h, i] = s * (dS * slope) @ K
        dK[b, g, seen] += s * np.outer(dS * slope, Q)
        dV[b, g, seen] += np.outer(P, dO)
        if sink is not None:  # one more key of the score sink[h], with the value zero
            dsink[h] += (1 - sum(P)) * (0 - D)
    d_bias = np.zeros(()) if bias is None else summed_to(dB, bias.shape)
    return {"d_q": dQ, "d_k": dK, "d_v": dV, "d_bias": d_bias, "d_sink": np.zeros(()) if sink is None else dsink}


def capped(S, softcap):
    """Scores under the cap, and its slope at each."""
    if softcap is None:
        return S, np.ones(len(S))
    return softcap * np.tanh(S / softcap), 1 - np.tanh(S / softcap) ** 2


def through_nothing(word, s, softcap, Q, K, V, dO, dK, dV):
    """What a query that sees no key gives: its own gradient, and in place what it adds to those of keys and values."""
    if word.startswith("nan"):
        dV += math.nan
        if word == "nans":
            dK += math.nan
            return math.nan
    elif word.startswith("mean"):
        P = np.full(len(K), 1 / len(K))
        dV += np.outer(P, dO)
        if word == "mean_score":
            dP = V @ dO
            dS = P * (dP - P @ dP) * capped(s * K @ Q, softcap)[1]
            dK += s * np.outer(dS, Q)
            return s * dS @ K
    return 0.0


def summed_to(x, shape):
    """The sum over the axes along which an array of that shape was broadcast to that of x."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    return x.sum(axis=tuple(a for a, n in enumerate(shape) if n != x.shape[a]), keepdims=True)
