"""Attention whose state is a matrix, token by token, and the convolution that stands before it.

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


def kimi_delta_attention(q, k, v, gate, beta, state=0.0, *, scale=None, normalise=False):
    """The gated delta rule with a gate for each channel of the keys: Kimi Team 2025, arXiv:2510.26692, equation 1.

    q, k [batch, key_heads, length, key_dim], v [batch, heads, length, value_dim], gate [batch, heads, length, key_dim],
    beta [batch, heads, length], state [batch, heads, key_dim, value_dim].
    Returns out [batch, heads, length, value_dim] and final_state, like state.
    """
    batch, key_heads, length, d = k.shape
    heads, e = v.shape[1], v.shape[3]
    if v.shape[2] != length or np.asarray(state).shape[2:3] not in ((), (d,)):
        raise ValueError("every key has a value, and a state a row for each channel of the keys")
    if normalise:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    of_head = np.arange(heads) // (heads // key_heads)
    q, k = q[:, of_head] / math.sqrt(d) if scale is None else scale * q[:, of_head], k[:, of_head]
    S = np.array(np.broadcast_to(state, (batch, heads, d, e)), float)
    out = np.empty(v.shape)
    for t in range(length):
        faded = np.exp(gate[:, :, t])[..., None] * S
        surprise = v[:, :, t] - np.einsum("bhd,bhde->bhe", k[:, :, t], faded)
        S = faded + beta[:, :, t, None, None] * np.einsum("bhd,bhe->bhde", k[:, :, t], surprise)
        out[:, :, t] = np.einsum("bhd,bhde->bhe", q[:, :, t], S)
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


FEATURES = {
    "identity": lambda x: x,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))) + 1,
    "relu": lambda x: np.maximum(x, 0),
}


def linear_attention(
    q,
    k,
    v,
    gate=0.0,
    state=0.0,
    key_sum=0.0,
    *,
    scale=None,
    feature_map="identity",
    normalise=False,
    eps=1e-6,
    causal=True,
    eps_place="to_normaliser",
):
    """Katharopoulos et al. 2020, arXiv:2006.16236, equations 16 to 20, with the gates of arXiv:2312.06635, equation 3.

    q, k [batch, heads, length, key_dim], v [batch, heads, length, value_dim], gate like k or
    [batch, heads, length, 1], state [batch, heads, key_dim, value_dim], key_sum [batch, heads, key_dim].
    Returns out, like v, final_state, like state, and final_sum, like key_sum.
    """
    batch, heads, length, d = k.shape
    e = v.shape[3]
    if v.shape[2] != length or np.asarray(state).shape[2:3] not in ((), (d,)):
        raise ValueError("every key has a value, and a state a row for each channel of the keys")
    q = FEATURES[feature_map](q) * (1 / math.sqrt(d) if scale is None else scale)
    k, alpha = FEATURES[feature_map](k), np.exp(np.broadcast_to(gate, k.shape))
    S = np.array(np.broadcast_to(state, (batch, heads, d, e)), float)
    z = np.array(np.broadcast_to(key_sum, (batch, heads, d)), float)
    after = []  # the state and the sum of keys after each token
    for t in range(length):
        S = alpha[:, :, t, :, None] * S + k[:, :, t, :, None] * v[:, :, t, None, :]
        z = alpha[:, :, t] * z + k[:, :, t]
        after.append((S, z))
    out = np.empty(v.shape)
    for t in range(length):
        read, summed = after[t] if causal else (S, z)
        out[:, :, t] = np.einsum("bhd,bhde->bhe", q[:, :, t], read)
        if normalise:
            at_once, early = (eps, 0) if eps_place == "to_normaliser" else (0, eps)
            out[:, :, t] /= np.einsum("bhd,bhd->bh", q[:, :, t], summed + early)[..., None] + at_once
    return {"out": out, "final_state": S, "final_sum": z}
