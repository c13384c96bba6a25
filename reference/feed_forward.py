"""Feed-forward layers of one token at a time, the gradients of one, and gated activations by themselves.

Vaswani et al. 2017, Attention is all you need, arXiv:1706.03762, equation 2;
Shazeer 2020, GLU variants improve transformer, arXiv:2002.05202, equations 5 and 6.
"""

import math

import numpy as np


def feed_forward(x, w_up, w_down, b_up=0.0, b_down=0.0, w_gate=0.0, b_gate=0.0, *, activation="gelu"):
    """a(x W_up + b_up) W_down + b_down for x [..., dim]; a gate, a(x W_gate + b_gate), multiplies what has no function.

    w_up and w_gate are [dim, hidden], w_down [hidden, dim]; biases are [hidden] and [dim].
    """
    gated = np.ndim(w_gate) > 0
    fitting(x, w_gate if gated else w_up, w_up, w_down)
    if not gated and np.ndim(b_gate):
        raise ValueError("the bias of a gate without a gate")
    out = np.empty(x.shape)
    for token in np.ndindex(x.shape[:-1]):
        up = x[token] @ w_up + b_up  # [hidden]
        gate = x[token] @ w_gate + b_gate if gated else up
        opened = np.array([FUNCTIONS[activation](float(z)) for z in gate])
        out[token] = (opened * up if gated else opened) @ w_down + b_down
    return out


def swiglu(x, w_gate, w_up, w_down):
    """(SiLU(x W_gate) * x W_up) W_down for x [..., dim]; w_gate and w_up [dim, hidden], w_down [hidden, dim]."""
    fitting(x, w_gate, w_up, w_down)
    out = np.empty(x.shape)
    for token in np.ndindex(x.shape[:-1]):
        gate, up = x[token] @ w_gate, x[token] @ w_up  # [hidden]
        out[token] = (silu(gate) * up) @ w_down
    return out


def swiglu_gradient(x, w_gate, w_up, w_down, d_out):
    """The gradients of sum(out * d_out): `d_x`, `d_w_gate`, `d_w_up` and `d_w_down`, in the shapes of the inputs.

    By the product rule, token by token, with SiLU'(z) = SiLU(z) + sigmoid(z) (1 - SiLU(z)).
    """
    fitting(x, w_gate, w_up, w_down)
    if d_out.shape != x.shape:
        raise ValueError(f"a cotangent of the shape {d_out.shape} for tokens {x.shape}")
    d_x, d_gate, d_up, d_down = (np.zeros(each.shape) for each in (x, w_gate, w_up, w_down))
    for token in np.ndindex(x.shape[:-1]):
        gate, up = x[token] @ w_gate, x[token] @ w_up  # [hidden]
        d_h = w_down @ d_out[token]
        s = silu(gate)
        d_g, d_u = d_h * up * (s + sigmoid(gate) * (1 - s)), d_h * s
        d_x[token] = w_gate @ d_g + w_up @ d_u
        d_gate += np.outer(x[token], d_g)
        d_up += np.outer(x[token], d_u)
        d_down += np.outer(s * up, d_out[token])
    return {"d_x": d_x, "d_w_gate": d_gate, "d_w_up": d_up, "d_w_down": d_down}


def gated_activation(x, *, activation="silu", order="gate_first", alpha=1.0, beta=0.0, limit=None, limit_opened=False):
    """Gates and their partners in one array [..., 2 n], and a(gate) (partner + beta) [..., n], entry by entry.

    Hendrycks and Gimpel 2016, arXiv:1606.08415; gpt-oss model card, arXiv:2508.10925, section 2.2.
    """
    if x.shape[-1] % 2 or not x.shape[-1] or (limit is not None and limit <= 0):
        raise ValueError("every gate has a partner, and a limit is positive")
    n = x.shape[-1] // 2
    out = np.empty((*x.shape[:-1], n))
    for place in np.ndindex(out.shape):
        *token, i = place
        first, second = (2 * i, 2 * i + 1) if order == "interleaved" else (i, i + n)
        gate, up = x[(*token, first)], x[(*token, second)]
        if order == "up_first":
            gate, up = up, gate
        if limit is not None and not limit_opened and gate > limit:
            gate = limit
        opened = ACTIVATIONS[activation](gate, alpha)
        if limit is not None:
            opened = limit if limit_opened and opened > limit else opened
            up = limit if up > limit else -limit if up < -limit else up
        out[place] = opened * (up + beta)
    return out


def gated_activation_gradient(
    x, d_out, *, activation="silu", order="gate_first", alpha=1.0, beta=0.0, limit=None, limit_opened=False
):
    """The gradient of sum(out * d_out) as `d_x` [..., 2 n], for x [..., 2 n] and d_out [..., n], entry by entry.

    By the product rule; what a limit cuts, or touches, has no gradient.
    """
    if x.shape[-1] % 2 or not x.shape[-1] or (limit is not None and limit <= 0):
        raise ValueError("every gate has a partner, and a limit is positive")
    n = x.shape[-1] // 2
    if d_out.shape != (*x.shape[:-1], n):
        raise ValueError(f"a cotangent of the shape {d_out.shape} for {n} gates of {x.shape}")
    d_x = np.empty(x.shape)
    for place in np.ndindex(d_out.shape):
        *token, i = place
        first, second = (2 * i, 2 * i + 1) if order == "interleaved" else (i, i + n)
        at, beside = ((*token, second), (*token, first)) if order == "up_first" else ((*token, first), (*token, second))
        z = x[at] if limit is None or limit_opened else min(x[at], limit)
        opened, slope = ACTIVATIONS[activation](z, alpha), SLOPES[activation](z, alpha)
        up = x[beside]
        if limit is not None:
            if (limit_opened and opened >= limit) or (not limit_opened and x[at] >= limit):
                slope = 0.0
            opened = min(opened, limit) if limit_opened else opened
            up = max(min(up, limit), -limit)
        d_x[at] = d_out[place] * (up + beta) * slope
        d_x[beside] = d_out[place] * opened if limit is None or abs(x[beside]) < limit else 0.0
    return d_x


ACTIVATIONS = {
    "silu": lambda z, alpha: silu(alpha * z) / alpha,
    "gelu": lambda z, _: z * math.erfc(-z / math.sqrt(2)) / 2,
    "gelu_tanh": lambda z, _: z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2,
}
"""What becomes of a gate."""
FUNCTIONS = {
    "gelu": lambda z: ACTIVATIONS["gelu"](z, 1.0),
    "gelu_tanh": lambda z: ACTIVATIONS["gelu_tanh"](z, 1.0),
    "quick_gelu": lambda z: ACTIVATIONS["silu"](z, 1.702),
    "silu": lambda z: ACTIVATIONS["silu"](z, 1.0),
    "relu": lambda z: math.nan if math.isnan(z) else max(z, 0.0),
    "relu_squared": lambda z: math.nan if math.isnan(z) else max(z, 0.0) ** 2,
}
"""What becomes of a hidden unit."""
SLOPES = {
    "silu": lambda z, alpha: sigmoid(alpha * z) + silu(alpha * z) * (1 - sigmoid(alpha * z)),
    "gelu": lambda z, _: math.erfc(-z / math.sqrt(2)) / 2 + z * math.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    "gelu_tanh": lambda z, _: slope_of_tanh(z, math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
}
"""Its slope: the derivative of what becomes of a gate."""


def slope_of_tanh(z, t):
    """The slope of z (1 + t) / 2, where t is the tangent of sqrt(2 / pi) (z + 0.044715 z ** 3)."""
    return (1 + t) / 2 + z * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * z * z) / 2


def fitting(x, w_gate, w_up, w_down):
    """Refuse matrices that do not fit."""
    dim, hidden = w_gate.shape
    if w_up.shape != (dim, hidden) or w_down.shape != (hidden, dim) or x.shape[-1] != dim or not dim * hidden:
        raise ValueError("the matrices are [dim, hidden] twice and [hidden, dim], and the tokens have dim channels")


def sigmoid(z):
    """1 / (1 + exp(-z)), without an exponential of a large number."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, e) / (1 + e)


def silu(z):
    """Z times its sigmoid, without an exponential of a large number."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, z / (1 + e), z * e / (1 + e))
