"""What a cotangent of an output is for the inputs: the gradients of sum(out * d_out).

Zhang and Sennrich 2019, Root mean square layer normalization, arXiv:1910.07467, section 4.2.
Xu, Sun, Zhang, Zhao and Lin 2019, Understanding and improving layer normalization, arXiv:1911.07013, section 3.
Bridle 1990, Probabilistic interpretation of feedforward classification network outputs: dp_i/dx_j = p_i (d_ij - p_j).
"""

import math

import numpy as np

from .norms import checked, groups_of, rms_norm
from .softmax import masked_softmax, softmax_of_row


def rms_norm_gradient(x, weight, d_out, *, eps=1e-5, eps_place="inside", weight_form="plain"):
    """Of rms_norm, for cotangents d_out [..., n]: `d_x` [..., n] and `d_weight` [n].

    By the quotient rule, with v = d_out g: dL/dx_i = v_i / r - (sum_j v_j x_j) / r^2 dr/dx_i.
    """
    n = checked(x, weight, eps=eps)
    alike(x, d_out)
    g = 1 + weight if weight_form == "one_plus" else weight
    d_x, d_weight = np.empty(x.shape), np.zeros(n)
    for row in np.ndindex(x.shape[:-1]):
        rms = math.sqrt(sum(x[row] ** 2) / n)
        r = math.sqrt(rms**2 + eps) if eps_place == "inside" else rms + eps
        root = r if eps_place == "inside" else rms  # whose slope is x / (n root)
        v = d_out[row] * g
        d_x[row] = v / r - v @ x[row] / r**2 * x[row] / (n * root) if root else math.nan
        d_weight += d_out[row] * x[row] / r if r else math.nan
    return {"d_x": d_x, "d_weight": d_weight}


def layer_norm_gradient(x, weight, d_out, *, eps=1e-5, eps_place="inside", variance="biased"):
    """Of layer_norm, for cotangents d_out [..., n]: `d_x` [..., n], `d_weight` [n] and `d_bias` [n].

    Through what is centred, c = x - mu, as for rms_norm; and centring is its own transpose.
    """
    n = checked(x, weight, eps=eps)
    alike(x, d_out)
    if eps == 0:
        raise ValueError("epsilon is positive")
    divisor = n if variance == "biased" else n - 1
    d_x, d_weight, d_bias = np.empty(x.shape), np.zeros(n), np.zeros(n)
    for row in np.ndindex(x.shape[:-1]):
        c = x[row] - sum(x[row]) / n
        sigma = math.sqrt(sum(c**2) / divisor) if divisor else math.nan
        r = math.sqrt(sigma**2 + eps) if eps_place == "inside" else sigma + eps
        root = r if eps_place == "inside" else sigma  # whose slope is c / (divisor root)
        v = d_out[row] * weight
        d_c = v / r - v @ c / r**2 * c / (divisor * root) if divisor and root else np.full(n, math.nan)
        d_x[row] = d_c - sum(d_c) / n
        d_weight += d_out[row] * c / r
        d_bias += d_out[row]
    return {"d_x": d_x, "d_weight": d_weight, "d_bias": d_bias}


def residual_rms_norm_gradient(
    x, residual, weight, d_out, *, d_summed=0.0, eps=1e-5, eps_place="inside", weight_form="plain"
):
    """Of residual_rms_norm, for cotangents d_out and d_summed [..., n]: `d_x`, `d_residual` and `d_weight`."""
    if not eps > 0:
        raise ValueError("epsilon is positive")
    summed = of_a_sum(x, residual, d_summed)
    of = rms_norm_gradient(summed, weight, d_out, eps=eps, eps_place=eps_place, weight_form=weight_form)
    return {"d_x": of["d_x"] + d_summed, "d_residual": of["d_x"] + d_summed, "d_weight": of["d_weight"]}


def residual_layer_norm_gradient(x, residual, weight, d_out, *, d_summed=0.0, eps=1e-5, eps_place="inside"):
    """Of residual_layer_norm, for cotangents d_out and d_summed [..., n]: the same, and `d_bias` [n]."""
    summed = of_a_sum(x, residual, d_summed)
    of = layer_norm_gradient(summed, weight, d_out, eps=eps, eps_place=eps_place)
    return {**of, "d_x": of["d_x"] + d_summed, "d_residual": of["d_x"] + d_summed}


def of_a_sum(x, residual, d_summed):
    """The sum of both, which its cotangent has the shape of, if there is one."""
    alike(x, residual)
    if np.ndim(d_summed):
        alike(x, d_summed)
    return np.array([a + b for a, b in zip(np.ravel(x), np.ravel(residual), strict=True)]).reshape(x.shape)


def group_norm_gradient(x, weight, d_out, *, groups, eps=1e-5, grouping="block"):
    """Of group_norm, for cotangents d_out [batch, channels, height, width]: `d_x` like x, `d_weight` and `d_bias`."""
    alike(x, d_out)
    d_x, d_weight, d_bias = np.empty(x.shape), np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for item, members in groups_of(x, weight, groups=groups, eps=eps, grouping=grouping):
        own, y = x[item, members], d_out[item, members]
        c = own - own.sum() / own.size
        r = math.sqrt((c**2).sum() / own.size + eps)
        v = y * weight[members, None, None]
        d_c = v / r - (v * c).sum() / r**3 * c / own.size
        d_x[item, members] = d_c - d_c.sum() / own.size
        d_weight[members] += (y * c / r).sum((1, 2))
        d_bias[members] += y.sum((1, 2))
    return {"d_x": d_x, "d_weight": d_weight, "d_bias": d_bias}


def softmax_gradient(x, d_out, *, empty_row="zeros"):
    """Of softmax, for cotangents d_out [..., n]: `d_x` [..., n]."""
    alike(x, d_out)
    d_x = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        p = softmax_of_row(x[row], empty_row)
        d_x[row] = p * d_out[row] - p * (p @ d_out[row])
    return {"d_x": d_x}


def log_softmax_gradient(x, d_out):
    """Of log_softmax, for cotangents d_out [..., n]: `d_x` [..., n]; of a row of minus infinities NaN."""
    alike(x, d_out)
    if not x.shape[-1]:
        raise ValueError("a row has entries")
    d_x = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        d_x[row] = d_out[row] - softmax_of_row(x[row], "nans") * d_out[row].sum()
    return {"d_x": d_x}


def masked_softmax_gradient(
    x,
    d_out,
    mask=True,
    bias=0.0,
    *,
    scale=1.0,
    causal=False,
    max_bias=0.0,
    empty_row="zeros",
    causal_alignment="bottom_right",
):
    """Of masked_softmax, for cotangents d_out [batch, heads, q_len, k_len]: `d_x`, of the same shape."""
    alike(x, d_out)
    forward = "mean_value" if empty_row == "equal_shares" else empty_row
    words = {"empty_row": forward, "causal_alignment": causal_alignment}
    p = masked_softmax(x, mask, bias, scale=scale, causal=causal, max_bias=max_bias, **words)
    d_x = np.empty(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        jacobian = np.diag(p[row]) - np.outer(p[row], p[row])
        d_x[row] = scale * (jacobian @ d_out[row])
    return {"d_x": d_x}


def alike(x, d_out):
    """A cotangent has the shape of what it is the cotangent of."""
    if d_out.shape != x.shape:
        raise ValueError("there is one entry of the cotangent for every entry")


def gated_rms_norm_gradient(x, gate, weight, d_out, *, groups=1, norm_before_gate=False, activation="silu", eps=1e-5):
    """Of gated_rms_norm, for cotangents d_out [batch, length, n]: `d_x` and `d_gate` [as x], and `d_weight` [n].

    By the chain rule through y = x a(z) and rms_norm of each group, in whichever order they come.
    """
    n = checked(x, weight, eps=eps)
    alike(x, d_out)
    if gate.shape != x.shape or groups < 1 or n % groups:
        raise ValueError("there is a gate for every channel, and groups divide the channels")
    s = 1 / (1 + np.exp(-np.maximum(gate, -700.0)))
    a = gate * s if activation == "silu" else s
    slope = s * (1 + gate * (1 - s)) if activation == "silu" else s * (1 - s)
    y = x if norm_before_gate else x * a
    d_norm = d_out * a if norm_before_gate else d_out
    d_y, d_weight, normed = np.empty(x.shape), np.zeros(n), np.empty(x.shape)
    for part in np.split(np.arange(n), groups):
        of = rms_norm_gradient(y[..., part], weight[part], d_norm[..., part], eps=eps)
        d_y[..., part], d_weight[part] = of["d_x"], of["d_weight"]
        normed[..., part] = rms_norm(y[..., part], weight[part], eps=eps)
    if norm_before_gate:
        return {"d_x": d_y, "d_gate": d_out * normed * slope, "d_weight": d_weight}
    return {"d_x": d_y * a, "d_gate": d_y * x * slope, "d_weight": d_weight}
