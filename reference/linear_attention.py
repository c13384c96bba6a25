"""Attention whose state is a matrix, token by token.

The delta rule: Schlag, Irie and Schmidhuber 2021, arXiv:2102.11174, section 4.2. With a gate: Yang, Kautz and
Hatamizadeh 2024, Gated delta networks, arXiv:2412.06464, equation 10.
"""

import math

import numpy as np


def gated_delta_rule(q, k, v, beta, gate=0.0, state=0.0, *, scale=None, normalise=False):
    """A state that decays, forgets what it holds for a key, takes the value in, and is read.

    q, k [batch, key_heads, length, key_dim], v [batch, heads, length, value_dim], beta and gate [batch, heads, length],
    state [batch, heads, key_dim, value_dim].
    Returns out [batch, heads, length, value_dim] and final_state, like state.
    """
    batch, key_heads, length, d = k.shape
    heads, e = v.shape[1], v.shape[3]
    if v.shape[2] != length or np.asarray(state).shape[2:3] not in ((), (d,)):
        raise ValueError("every key has a value, and a state a row for each channel of the keys")
    s = 1 / math.sqrt(d) if scale is None else scale
    gate = np.broadcast_to(gate, (batch, heads, length))
    S = np.array(np.broadcast_to(state, (batch, heads, d, e)), float)
    out = np.empty(v.shape)
    for b, h in np.ndindex(batch, heads):
        g = h // (heads // key_heads)
        for t in range(length):
            q_t, k_t = q[b, g, t], k[b, g, t]
            if normalise:
                q_t, k_t = (x / math.sqrt(x @ x + 1e-6) for x in (q_t, k_t))
            decayed = math.exp(gate[b, h, t]) * S[b, h]
            found = k_t @ decayed  # [e]
            S[b, h] = decayed + np.outer(k_t, beta[b, h, t] * (v[b, h, t] - found))
            out[b, h, t] = s * q_t @ S[b, h]
    return {"out": out, "final_state": S}


def short_convolution(x, weight, bias=0.0, state=0.0, *, silu=False):
    """Each channel mixed with its last inputs: Gu and Dao 2023, Mamba, arXiv:2312.00752, section 3.4.

    x [batch, channels, length], weight [channels, width], bias [channels], state [batch, channels, width - 1].
    Returns out, like x, and final_state, like state.
    """
    batch, channels, length = x.shape
    if len(weight) != channels:
        raise ValueError("every channel has weights")
    width = weight.shape[1]
    bias = np.broadcast_to(bias, channels)
    past = np.array(np.broadcast_to(state, (batch, channels, width - 1)), float)
    out = np.empty(x.shape)
    for t in range(length):
        last = np.concatenate([past, x[:, :, t : t + 1]], axis=2)  # [batch, channels, width]
        y = (last * weight).sum(2) + bias
        out[:, :, t] = y / (1 + np.exp(-y)) if silu else y
        past = last[:, :, 1:]
    return {"out": out, "final_state": past}
