"""Products of groups of rows with a matrix each: Gale et al. 2022, MegaBlocks, arXiv:2211.15841, section 4."""

import itertools

import numpy as np


def _groups(x, w, lens):
    """The rows of each group, from one sum of lengths to the next."""
    if np.any(lens < 0) or np.sum(lens) > len(x) or len(lens) != len(w) or x.shape[1] != w.shape[1]:
        raise ValueError("every matrix has a length, and every row an entry for each of its rows")
    return [slice(a, b) for a, b in itertools.pairwise([0, *np.cumsum(lens)])]


def _strays(stray_nonfinite, *arrays):
    """Whether a NaN or an infinity somewhere leaves everything open."""
    return stray_nonfinite == "propagates" and not all(np.isfinite(x).all() for x in arrays)


def grouped_matmul(
    x,
    w,
    lens,
    bias=0.0,
    x_scale=1.0,
    w_scale=None,
    *,
    inner_block=None,
    outs_block=None,
    stray_nonfinite="ignored",
):
    """x_t W_g + c_g for the rows t of each group g: [rows, outs], NaN for rows behind the last group.

    x [rows, n], w [groups, n, outs], lens [groups] in numbers of rows, bias [groups, outs]. With scales x and w are
    codes: x_scale [rows, stretches] and w_scale [groups, stretches, blocks], each of the full length or one;
    DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2.
    """
    out = np.full((len(x), w.shape[2]), np.nan)
    if _strays(stray_nonfinite, x, w, x_scale, 0.0 if w_scale is None else w_scale):
        return out
    n, outs = w.shape[1:]
    L, W = inner_block or n, outs_block or 1
    if np.ndim(x_scale):
        x = x * np.repeat(np.broadcast_to(x_scale, (len(x), -(-n // L))), L, 1)[:, :n]
    if w_scale is not None:
        blocks = np.broadcast_to(w_scale, (len(w), -(-n // L), -(-outs // W)))
        w = w * np.repeat(np.repeat(blocks, L, 1)[:, :n], W, 2)[..., :outs]
    bias = np.broadcast_to(bias, (len(w), w.shape[2]))
    for g, own in enumerate(_groups(x, w, lens)):
        out[own] = x[own] @ w[g] + bias[g]
    return out


def grouped_matmul_gradient(x, w, lens, d_out, bias=0.0, *, stray_nonfinite="ignored"):
    """What a cotangent d_out [rows, outs] is for x, w and the biases; zeros for a group without rows.

    d_x_t = d_y_t W_g^T, d_W_g = X_g^T dY_g, d_c_g the sum of dY_g; NaN for rows behind the last group.
    """
    d_x, d_w, d_bias = np.full(x.shape, np.nan), np.zeros(w.shape), np.zeros((len(w), w.shape[2]))
    groups = _groups(x, w, lens)
    if _strays(stray_nonfinite, x, w, d_out):
        groups, d_w, d_bias = [], d_w + np.nan, d_bias + np.nan
    for g, own in enumerate(groups):
        d_x[own] = d_out[own] @ w[g].T
        d_w[g] = x[own].T @ d_out[own]
        d_bias[g] = d_out[own].sum(0)
    return {"d_x": d_x, "d_w": d_w, "d_bias": d_bias if np.ndim(bias) else 0.0}
