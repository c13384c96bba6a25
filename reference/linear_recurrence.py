"""States of one number for each channel, token by token: Martin and Cundy 2018, arXiv:1709.04057, section 2.1."""

# An input that may be absent is inferred to be a number.
# pyright: reportArgumentType=false

import numpy as np

from .gradients import alike
from .recurrence_gradients import given


def linear_recurrence(x, a, state=0.0, *, reverse=False, log_space=False):
    """h_t = a_t h_{t-1} + x_t, from the first token to the last, or with `reverse` from the last to the first.

    x and a [batch, channels, length], the logarithms of the factors with `log_space`, state [batch, channels].
    Returns out, like x, and final_state, like state.
    """
    batch, channels, length = x.shape
    if a.shape != x.shape or np.shape(state) not in ((), (batch, channels)):
        raise ValueError("every token has a factor, and every channel a state")
    h, out = np.array(np.broadcast_to(state, (batch, channels)), float), np.empty(x.shape)
    for t in reversed(range(length)) if reverse else range(length):
        h = (np.exp(a[:, :, t]) if log_space else a[:, :, t]) * h + x[:, :, t]
        out[:, :, t] = h
    return {"out": out, "final_state": h}


def linear_recurrence_gradient(x, a, d_out, state=0.0, d_final_state=0.0, *, reverse=False, log_space=False):
    """Of linear_recurrence, for d_out, like x, and d_final_state [batch, channels]: back through every step.

    Returns `d_x`, `d_a` and `d_state`, which is 0 where there is no state.
    """
    alike(x, d_out)
    batch, channels, length = x.shape
    order = [*reversed(range(length))] if reverse else [*range(length)]
    h, before = np.broadcast_to(state, (batch, channels)), {}
    for t in order:
        before[t] = h
        h = (np.exp(a[:, :, t]) if log_space else a[:, :, t]) * h + x[:, :, t]
    d_h = np.broadcast_to(d_final_state, (batch, channels))
    d_x, d_a = np.empty(x.shape), np.empty(a.shape)
    for t in reversed(order):
        factor = np.exp(a[:, :, t]) if log_space else a[:, :, t]
        d_h = d_h + d_out[:, :, t]
        d_x[:, :, t] = d_h
        d_a[:, :, t] = d_h * before[t] * (factor if log_space else 1)
        d_h = d_h * factor
    return {"d_x": d_x, "d_a": d_a} | given(d_state=(d_h, state))
