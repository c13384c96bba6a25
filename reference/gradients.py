"""What a cotangent of an output is for the inputs: the gradients of sum(out * d_out).

Zhang and Sennrich 2019, Root mean square layer normalization, arXiv:1910.07467, section 4.2.
"""

import math

import numpy as np

from .norms import checked


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


def alike(x, d_out):
    """A cotangent has the shape of what it is the cotangent of."""
    if d_out.shape != x.shape:
        raise ValueError("there is one entry of the cotangent for every entry")
