"""What goes from token to token, over items that lie one behind the other: each of them by itself."""

# An input that may be absent is inferred to be a number.
# pyright: reportArgumentType=false

import numpy as np

from .linear_attention import gated_delta_rule, linear_attention, short_convolution
from .linear_recurrence import linear_recurrence
from .state_space import state_space


def packed_delta_rule(q, k, v, beta, lens, gate=0.0, state=0.0, *, scale=None, normalise=False):
    """The gated delta rule for items that lie one behind the other.

    q, k [tokens, key_heads, key_dim], v [tokens, heads, value_dim], beta and gate [tokens, heads], lens [items],
    state [items, heads, key_dim, value_dim]. Returns out [tokens, heads, value_dim] and final_state, like state.
    """
    if len(v) != len(k) or np.shape(state)[:1] not in ((), (len(lens),)):
        raise ValueError("every key has a value, and every item a state")
    gate = np.broadcast_to(gate, beta.shape)
    state = np.broadcast_to(state, (len(lens), v.shape[1], k.shape[2], v.shape[2]))
    out, left, end = np.empty(v.shape), np.array(state, float), 0
    for b, length in enumerate(lens):
        here = slice(end, end := end + int(length))
        by_head = [x[here].swapaxes(0, 1)[None] for x in (q, k, v, beta, gate)]
        found = gated_delta_rule(*by_head, state[b : b + 1], scale=scale, normalise=normalise)
        out[here], left[b] = found["out"][0].swapaxes(0, 1), found["final_state"][0]
    return {"out": out, "final_state": left}


def packed_linear_attention(q, k, v, lens, gate=0.0, state=0.0, *, scale=None):
    """Linear attention for items that lie one behind the other.

    q, k [tokens, heads, key_dim], v [tokens, heads, value_dim], gate like k or [tokens, heads, 1], lens [items],
    state [items, heads, key_dim, value_dim]. Returns out, like v, and final_state, like state.
    """
    if len(v) != len(k) or np.shape(state)[:1] not in ((), (len(lens),)):
        raise ValueError("every key has a value, and every item a state")
    gate = np.broadcast_to(gate, k.shape)
    state = np.broadcast_to(state, (len(lens), *k.shape[1:], v.shape[2]))
    out, left, end = np.empty(v.shape), np.array(state, float), 0
    for b, length in enumerate(lens):
        here = slice(end, end := end + int(length))
        by_head = [x[here].swapaxes(0, 1)[None] for x in (q, k, v, gate)]
        found = linear_attention(*by_head, state[b : b + 1], scale=scale)
        out[here], left[b] = found["out"][0].swapaxes(0, 1), found["final_state"][0]
    return {"out": out, "final_state": left}


def packed_state_space(x, dt, a, b, c, lens, d=0.0, dt_bias=0.0, state=0.0, *, softplus=False):
    """The state space for items that lie one behind the other.

    x [tokens, heads, head_dim], dt [tokens, heads], a, d and dt_bias [heads], b and c [tokens, groups, state_dim], lens
    [items], state [items, heads, head_dim, state_dim]. Returns out, like x, and final_state, like state.
    """
    if len(dt) != len(x) or np.shape(state)[:1] not in ((), (len(lens),)):
        raise ValueError("every token has a step, and every item a state")
    state = np.broadcast_to(state, (len(lens), *x.shape[1:], b.shape[2]))
    out, left, end = np.empty(x.shape), np.array(state, float), 0
    for i, length in enumerate(lens):
        here = slice(end, end := end + int(length))
        x_i, dt_i, b_i, c_i = (y[here].swapaxes(0, 1)[None] for y in (x, dt, b, c))
        found = state_space(x_i, dt_i, a, b_i, c_i, d, dt_bias, state[i : i + 1], softplus=softplus)
        out[here], left[i] = found["out"][0].swapaxes(0, 1), found["final_state"][0]
    return {"out": out, "final_state": left}


def packed_convolution(x, weight, lens, bias=0.0, state=0.0, *, silu=False):
    """The short convolution for items that lie one behind the other.

    x [tokens, channels], weight [channels, width], lens [items], bias [channels], state [items, channels, width - 1].
    Returns out, like x, and final_state, like state.
    """
    if np.shape(state)[:1] not in ((), (len(lens),)):
        raise ValueError("every item has a state, or none has")
    state = np.broadcast_to(state, (len(lens), len(weight), weight.shape[1] - 1))
    out, left, end = np.empty(x.shape), np.array(state, float), 0
    for b, length in enumerate(lens):
        here = slice(end, end := end + int(length))
        found = short_convolution(x[here].T[None], weight, bias, state[b : b + 1], silu=silu)
        out[here], left[b] = found["out"][0].T, found["final_state"][0]
    return {"out": out, "final_state": left}


def packed_linear_recurrence(x, a, lens, state=0.0, *, log_space=False):
    """The linear recurrence for items that lie one behind the other.

    x and a [tokens, channels], lens [items], state [items, channels]. Returns out, like x, and final_state, like state.
    """
    if a.shape != x.shape or np.shape(state)[:1] not in ((), (len(lens),)):
        raise ValueError("every token has a factor, and every item a state")
    out, left, end = np.empty(x.shape), np.array(np.broadcast_to(state, (len(lens), x.shape[1])), float), 0
    for b, length in enumerate(lens):
        here = slice(end, end := end + int(length))
        found = linear_recurrence(x[here].T[None], a[here].T[None], left[b : b + 1], log_space=log_space)
        out[here], left[b] = found["out"][0].T, found["final_state"][0]
    return {"out": out, "final_state": left}
