"""The state space of Mamba-2, Dao and Gu 2024, arXiv:2405.21060, sections 2 and 7.2, and the selective scan of Mamba.

The scan is that of Gu and Dao 2023, arXiv:2312.00752, algorithm 2.
"""

import numpy as np


def state_space(x, dt, a, b, c, d=0.0, dt_bias=0.0, state=0.0, *, softplus=False):
    """A state that fades by the step, takes the input in, and is read.

    x [batch, heads, length, head_dim], dt [batch, heads, length], a, d and dt_bias [heads], b and c [batch, groups,
    length, state_dim], state [batch, heads, head_dim, state_dim].
    Returns out, like x, and final_state, like state.
    """
    batch, heads, length, p = x.shape
    n = b.shape[3]
    if dt.shape[2] != length or np.asarray(state).shape[3:] not in ((), (n,)):
        raise ValueError("every token has a step, and a state a column for each channel of b")
    group_of = np.arange(heads) // (heads // b.shape[1])
    delta = dt + np.broadcast_to(dt_bias, heads)[:, None]
    delta = np.logaddexp(0, delta) if softplus else delta
    h = np.array(np.broadcast_to(state, (batch, heads, p, n)), float)
    y = np.empty(x.shape)
    for t in range(length):
        fade = np.exp(a * delta[:, :, t])[..., None, None]
        B, C = b[:, group_of, t], c[:, group_of, t]
        h = fade * h + delta[:, :, t, None, None] * x[:, :, t, :, None] * B[:, :, None]
        y[:, :, t] = np.einsum("bhpn,bhn->bhp", h, C) + np.broadcast_to(d, heads)[:, None] * x[:, :, t]
    return {"out": y, "final_state": h}


def selective_scan(x, dt, a, b, c, d=0.0, z=0.0, dt_bias=0.0, state=0.0, *, softplus=False):
    """A row of states for each channel, whose entries fade by a of their own.

    x, dt and z [batch, channels, length], a [channels, state_dim], b and c [batch, state_dim, length], d and dt_bias
    [channels], state [batch, channels, state_dim]. Returns out, like x, and final_state, like state.
    """
    batch, channels, length = x.shape
    n = b.shape[1]
    if dt.shape != x.shape or np.asarray(state).shape[2:] not in ((), (n,)):
        raise ValueError("every token has a step, and a state a column for each entry of b")
    delta = dt + np.broadcast_to(dt_bias, channels)[:, None]
    delta = np.logaddexp(0, delta) if softplus else delta
    h = np.array(np.broadcast_to(state, (batch, channels, n)), float)
    y = np.empty(x.shape)
    for t in range(length):
        A = np.exp(delta[:, :, t, None] * a)
        h = A * h + (delta[:, :, t] * x[:, :, t])[..., None] * b[:, None, :, t]
        y[:, :, t] = np.einsum("bdn,bn->bd", h, c[:, :, t]) + np.broadcast_to(d, channels) * x[:, :, t]
    return {"out": y * z / (1 + np.exp(-z)) if np.ndim(z) else y, "final_state": h}
