"""Normalisation of rows.

Ba, Kiros and Hinton 2016, Layer normalization, arXiv:1607.06450, section 3, equation 3.
Wu and He 2018, Group normalization, arXiv:1803.08494, section 3, equations 1 to 3 and 7.
Zhang and Sennrich 2019, Root mean square layer normalization, arXiv:1910.07467, equation 4.
"""

import math

import numpy as np


def layer_norm(x, weight, bias, *, eps=1e-5, eps_place="inside", variance="biased"):
    """Rows of x [..., n], centred and divided by their standard deviation, times weight [n] plus bias [n]."""
    n = checked(x, weight, bias, eps=eps)
    if eps == 0:
        raise ValueError("epsilon is positive")
    out = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        mu = sum(x[row]) / n
        squares = sum((x[row] - mu) ** 2)
        divisor = n if variance == "biased" else n - 1
        sigma2 = squares / divisor if divisor else math.nan
        root = math.sqrt(sigma2 + eps) if eps_place == "inside" else math.sqrt(sigma2) + eps
        out[row] = (x[row] - mu) / root * weight + bias
    return out


def rms_norm(x, weight, *, eps=1e-5, eps_place="inside", weight_form="plain"):
    """Rows of x [..., n] divided by their root mean square, times weight [n] (or one plus weight)."""
    n = checked(x, weight, eps=eps)
    g = 1 + weight if weight_form == "one_plus" else weight
    out = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        square = sum(x[row] ** 2) / n
        rms = math.sqrt(square + eps) if eps_place == "inside" else math.sqrt(square) + eps
        out[row] = x[row] / rms * g if rms > 0 else math.nan
    return out


def residual_rms_norm(x, residual, weight, bias=0.0, *, eps=1e-5, eps_place="inside", weight_form="plain"):
    """The residual stream [..., n] with x and a bias [n] added to it, normalised by rows and as it is."""
    if residual.shape != x.shape:
        raise ValueError("what is added has the shape of the stream")
    if not eps > 0:
        raise ValueError("epsilon is positive")
    biases = np.broadcast_to(bias, x.shape)
    terms = zip(np.ravel(x), np.ravel(residual), np.ravel(biases), strict=True)
    summed = np.array([a + b + c for a, b, c in terms]).reshape(x.shape)
    out = rms_norm(summed, weight, eps=eps, eps_place=eps_place, weight_form=weight_form)
    return {"out": out, "summed": summed}


def residual_layer_norm(x, residual, weight, bias, *, eps=1e-5, eps_place="inside"):
    """The residual stream [..., n] with x added to it, centred and normalised by rows, and as it is."""
    if residual.shape != x.shape:
        raise ValueError("what is added has the shape of the stream")
    summed = np.array([a + b for a, b in zip(np.ravel(x), np.ravel(residual), strict=True)]).reshape(x.shape)
    return {"out": layer_norm(summed, weight, bias, eps=eps, eps_place=eps_place), "summed": summed}


def gated_rms_norm(x, gate, weight, *, groups=1, norm_before_gate=False, activation="silu", eps=1e-5):
    """Groups of consecutive channels of x [batch, length, n] divided by their root mean square, and gated [as x].

    The function of the gate multiplies the normalised rows, or the rows before they are normalised.
    """
    n = checked(x, weight, eps=eps)
    if gate.shape != x.shape:
        raise ValueError("there is a gate for every channel")
    if groups < 1 or n % groups or not eps > 0:
        raise ValueError("groups divide the channels, and epsilon is positive")
    open_ = 1 / (1 + np.exp(-np.maximum(gate, -700.0)))
    a = gate * open_ if activation == "silu" else open_
    out = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        y = x[row] if norm_before_gate else x[row] * a[row]
        for group in np.split(np.arange(n), groups):
            out[row][group] = y[group] / math.sqrt(sum(y[group] ** 2) / len(group) + eps) * weight[group]
        if norm_before_gate:
            out[row] *= a[row]
    return out


def group_norm(x, weight, bias, *, groups, eps=1e-5, silu=False, grouping="block"):
    """Groups of channels of x [batch, channels, height, width], centred and divided by their standard deviation."""
    out = np.empty(x.shape)
    for item, members in groups_of(x, weight, bias, groups=groups, eps=eps, grouping=grouping):
        own = x[item, members]
        mu = own.sum() / own.size
        root = math.sqrt(((own - mu) ** 2).sum() / own.size + eps)
        for c in members:
            out[item, c] = (x[item, c] - mu) / root * weight[c] + bias[c]
    return out / (1 + np.exp(-np.maximum(out, -700.0))) if silu else out


def modulated_norm(x, scales, shifts, weight=1, bias=0, residual=0, gate=1, *, rms=False, eps=1e-6):
    """Rows of x [batch, length, n], normalised, scaled and shifted by [batch, frames, n], and the stream [as x].

    Peebles and Xie 2023, Scalable diffusion models with transformers, arXiv:2212.09748, section 3.2.
    """
    batch, length, n = x.shape
    frames = scales.shape[1]
    if scales.shape != shifts.shape or scales.shape[::2] != (batch, n) or length % frames or not eps > 0:
        raise ValueError("a scale and a shift for every channel of a frame, and epsilon is positive")
    out, summed = np.empty(x.shape), np.empty(x.shape)
    stream = np.broadcast_to(residual, x.shape)
    gates = np.broadcast_to(gate, scales.shape)
    for b, t in np.ndindex(batch, length):
        f = t * frames // length
        z = stream[b, t] + gates[b, f] * x[b, t]
        c = z if rms else z - sum(z) / n
        normed = c / math.sqrt(sum(c**2) / n + eps) * weight + bias
        out[b, t], summed[b, t] = normed * (1 + scales[b, f]) + shifts[b, f], z
    return {"out": out, "summed": summed}


def groups_of(x, *parameters, groups, eps, grouping):
    """The channels of each group of each item of x [batch, channels, height, width]."""
    channels = x.shape[1]
    if groups < 1 or channels % groups or any(p.shape != (channels,) for p in parameters):
        raise ValueError("groups divide the channels, each of which has a weight and a bias")
    if not eps > 0:
        raise ValueError("epsilon is positive")
    order = np.arange(channels)
    each = np.split(order, groups) if grouping == "block" else [order[g::groups] for g in range(groups)]
    return [(item, members) for item in range(len(x)) for members in each]


def checked(x, *parameters, eps):
    """The number of channels, one of every parameter for each."""
    n = x.shape[-1]
    if n < 1 or any(p.shape != (n,) for p in parameters):
        raise ValueError("there is one weight, and one bias, for every channel")
    if eps < 0:
        raise ValueError("epsilon is not negative")
    return n
