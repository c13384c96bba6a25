"""States of one number for each channel, token by token: Martin and Cundy 2018, arXiv:1709.04057, section 2.1."""

# An input that may be absent is inferred to be a number.
# pyright: reportArgumentType=false

import numpy as np


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
