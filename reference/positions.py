"""Positions: turned, added from a formula, added from a table.

Rotary: Su et al. 2021, RoFormer, arXiv:2104.09864, equations 14 and 15.
Sinusoidal: Vaswani et al. 2017, Attention is all you need, section 3.5; the variants of its successors are those of the
authors' own tensor2tensor.
Learned: Gehring et al. 2017, Convolutional sequence to sequence learning, arXiv:1705.03122, section 3.1.
"""

import math

import numpy as np

from .norms import rms_norm


def rotary(x, positions, *, base=10000.0, interleaved=False, rotary_dim=None, pair_place="kept"):
    """Every pair of the first w channels turned by its angle.

    x [batch, heads, length, dim], positions [length] integers; w is `rotary_dim`, or all of dim.
    """
    length, dim = x.shape[2:]
    w = dim if rotary_dim is None else rotary_dim
    if w % 2 or not 0 < w <= dim:
        raise ValueError(f"a head of {dim} channels has no {w} of them in pairs")
    if base <= 0:
        raise ValueError("the base is above zero")
    if len(positions) != length:
        raise ValueError(f"{length} tokens have {len(positions)} positions")
    out = x.copy()
    for p, i in np.ndindex(length, w // 2):
        theta = base ** (-2 * i / w)
        c, s = math.cos(positions[p] * theta), math.sin(positions[p] * theta)
        m, n = (2 * i, 2 * i + 1) if interleaved else (i, i + w // 2)
        a, b = (i, i + w // 2) if pair_place == "parted" else (m, n)
        out[:, :, p, a] = x[:, :, p, m] * c - x[:, :, p, n] * s
        out[:, :, p, b] = x[:, :, p, m] * s + x[:, :, p, n] * c
    return out


def rotary_gradient(x, positions, d_out, *, base=10000.0, interleaved=False, rotary_dim=None, pair_place="kept"):
    """Of rotary, for cotangents d_out [batch, heads, length, dim]: `d_x`, of the same shape."""
    length, dim = x.shape[2:]
    w = dim if rotary_dim is None else rotary_dim
    if w % 2 or not 0 < w <= dim:
        raise ValueError(f"a head of {dim} channels has no {w} of them in pairs")
    if base <= 0 or len(positions) != length or d_out.shape != x.shape:
        raise ValueError("the base is above zero, each token has a position, and each entry a cotangent")
    d_x = d_out.copy()
    for p, i in np.ndindex(length, w // 2):
        theta = base ** (-2 * i / w)
        c, s = math.cos(positions[p] * theta), math.sin(positions[p] * theta)
        m, n = (2 * i, 2 * i + 1) if interleaved else (i, i + w // 2)
        a, b = (i, i + w // 2) if pair_place == "parted" else (m, n)
        d_x[:, :, p, m] = d_out[:, :, p, a] * c + d_out[:, :, p, b] * s
        d_x[:, :, p, n] = d_out[:, :, p, b] * c - d_out[:, :, p, a] * s
    return {"d_x": d_x}


def rotary_pair(q, k, positions, *, base=10000.0, interleaved=False, rotary_dim=None, inverse=False):
    """Queries and keys, item by item: q [batch, heads, length, dim], k [batch, kv_heads, length, dim].

    `positions` [batch, length]; the inverse turns by their opposites.
    """
    found = {"q_out": np.empty(q.shape), "k_out": np.empty(k.shape)}
    if len(positions) != len(q) or len(positions) != len(k):
        raise ValueError("each item has its positions")
    for b, own in enumerate(positions):
        for name, x in (("q_out", q), ("k_out", k)):
            at = -own if inverse else own
            found[name][b] = rotary(x[b : b + 1], at, base=base, interleaved=interleaved, rotary_dim=rotary_dim)[0]
    return found


def sinusoidal(*, length, dim, base=10000.0, offset=0, columns="alternating", spacing="by_width"):
    """The rows of positions `offset` to `offset + length - 1`: `table [length, dim]`."""
    if dim < 1 or length < 0 or offset < 0 or base <= 0:
        raise ValueError("a table has a width, no position before zero, and a base above zero")
    cosines = dim // 2
    sines = dim - cosines
    table = np.empty((length, dim))
    for row, k in np.ndindex(length, sines):
        exponent = 2 * k / dim if spacing == "by_width" else k / max(cosines - 1, 1)
        angle = (offset + row) / base**exponent
        at = {"alternating": 2 * k, "sines_first": k, "cosines_first": cosines + k}[columns]
        table[row, at] = math.sin(angle)
        if k < cosines:
            at = {"alternating": 2 * k + 1, "sines_first": sines + k, "cosines_first": k}[columns]
            table[row, at] = math.cos(angle)
    return table


def timestep_embedding(timesteps, *, dim, cosines_first=False, downscale=0, scale=1.0, base=10000.0):
    """The sines and cosines of timesteps [n], which may be fractions: `out [n, dim]`, with a last zero if dim is odd.

    Ho et al. 2020, arXiv:2006.11239, appendix B; `downscale` is one where the last frequency is one over the base.
    """
    half = dim // 2
    if half < 1 or half <= downscale or base <= 0:
        raise ValueError("an embedding has two frequencies where the last is one over the base, and else one")
    out = np.zeros((len(timesteps), dim))
    for row, k in np.ndindex(len(timesteps), half):
        angle = scale * timesteps[row] * base ** (-k / (half - downscale))
        first, second = (math.cos, math.sin) if cosines_first else (math.sin, math.cos)
        out[row, k], out[row, half + k] = first(angle), second(angle)
    return out


def learned_position(x, table, *, offset=0):
    """Every token with the row of its position added to it: x [batch, length, dim], table [rows, dim]."""
    length, rows = x.shape[1], len(table)
    if offset < 0 or offset + length > rows:
        raise ValueError(f"positions {offset} to {offset + length - 1} are not all in a table of {rows} rows")
    if x.shape[2] != table.shape[1]:
        raise ValueError("content and table differ in width")
    out = np.empty(x.shape)
    for p in range(length):
        out[:, p] = x[:, p] + table[offset + p]
    return out


def rotary_tables(positions, *, dim, base=10000.0, columns="in_halves", factor=1.0, scaling=1.0):
    """The cosines and sines of positions [batch, length], divided by a factor: two of [batch, length, dim].

    With `of_pairs` each pair has one column, and the tables are [batch, length, dim / 2].
    """
    if dim < 2 or dim % 2 or base <= 0 or factor <= 0:
        raise ValueError("channels come in pairs, and the base and the factor are above zero")
    batch, length = positions.shape
    width = dim // 2 if columns == "of_pairs" else dim
    cosines, sines = np.empty((batch, length, width)), np.empty((batch, length, width))
    for b, p, i in np.ndindex(batch, length, dim // 2):
        angle = positions[b, p] / factor * base ** (-2 * i / dim)
        places = {"in_halves": [i, i + dim // 2], "side_by_side": [2 * i, 2 * i + 1], "of_pairs": [i]}[columns]
        cosines[b, p, places] = scaling * math.cos(angle)
        sines[b, p, places] = scaling * math.sin(angle)
    return {"cosines": cosines, "sines": sines}


def rotary_frequencies(
    short_factor=1.0,
    long_factor=1.0,
    *,
    kind="default",
    dim,
    rotary_dim=None,
    base=10000.0,
    factor=4.0,
    trained=2048,
    length=1,
    beta_fast=32.0,
    beta_slow=1.0,
    truncate=True,
    mscale=None,
    mscale_all_dim=None,
    attention_factor=None,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
):
    """What each pair turns by from one position to the next, in radians, and the factor of sines and cosines.

    Linear: Chen et al. 2023, arXiv:2306.15595. Dynamic and YaRN: Peng et al. 2023, arXiv:2309.00071. Llama 3: the code
    published with arXiv:2407.21783. LongRoPE: Ding et al. 2024, arXiv:2402.13753, factors [width / 2] each.
    Returns frequencies [width / 2] and scaling, one number.
    """
    w = rotary_dim if rotary_dim is not None and kind != "proportional" else dim
    if dim % 2 or w % 2 or not 0 < w <= dim or base <= 1:
        raise ValueError(f"a head of {dim} channels has no {w} of them in pairs, or the base is not above one")
    L, s = trained, factor
    if kind == "dynamic" and length > L:
        base = base * (s * length / L - (s - 1)) ** (w / (w - 2))
    out = np.array([base ** (-2 * i / w) for i in range(w // 2)])
    for i in range(w // 2):
        theta = out[i]
        wavelength = 2 * math.pi / theta
        if kind == "linear":
            out[i] = theta / s
        elif kind == "llama3":
            smooth = llama_share(wavelength, L / low_freq_factor, L / high_freq_factor)
            out[i] = (1 - smooth) * theta / s + smooth * theta
        elif kind == "yarn":
            gamma = 1 - yarn_ramp(i, w, base, L, beta_fast, beta_slow, truncate)
            out[i] = (1 - gamma) * theta / s + gamma * theta
        elif kind == "longrope":
            factors = np.broadcast_to(long_factor if length > L else short_factor, w // 2)
            out[i] = theta / factors[i]
        elif kind == "proportional":
            out[i] = theta / s if rotary_dim is None or 2 * i < rotary_dim else 0.0

    scaling = 1.0
    if kind in ("yarn", "longrope") and attention_factor is not None:
        scaling = attention_factor
    elif kind == "yarn":
        first, second = (1.0, 0.0) if mscale is None or mscale_all_dim is None else (mscale, mscale_all_dim)
        scaling = (0.1 * first * math.log(s) + 1) / (0.1 * second * math.log(s) + 1)
    elif kind == "longrope":
        scaling = math.sqrt(1 + math.log(s) / math.log(L))
    return {"frequencies": out, "scaling": scaling}


def llama_share(wavelength, longest, shortest):
    """How much of a pair is left alone: all of it below the shortest wavelength, and nothing above the longest."""
    if wavelength > longest:
        return 0.0
    if wavelength < shortest:
        return 1.0
    return (1 / wavelength - 1 / longest) / (1 / shortest - 1 / longest)


def yarn_ramp(i, w, base, L, beta_fast, beta_slow, truncate):
    """How far pair i is on the way from frequencies that are left alone to those that are divided."""
    low, high = (w * math.log(L / (n * 2 * math.pi)) / (2 * math.log(base)) for n in (beta_fast, beta_slow))
    low, high = (math.floor(low), math.ceil(high)) if truncate else (low, high)
    low, high = max(low, 0), min(high, w - 1)
    return min(max((i - low) / (high - low if high != low else 0.001), 0), 1)


def mrope(x, positions, *, sections, base=10000.0, interleaved=False, striped=False):
    """Every pair turned by the position of its token on the axis of its section.

    Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1; striped as in Qwen3-VL.
    x [batch, heads, length, dim], positions [axes, batch, length], sections [axes] pairs each.
    """
    batch, _, length, dim = x.shape
    if dim % 2 or sum(sections) != dim // 2 or positions.shape != (len(sections), batch, length):
        raise ValueError("every pair has an axis, and every token a position on each")
    if striped:
        axes = [0] * (dim // 2)
        for a in range(1, len(sections)):
            for n in range(sections[a]):
                axes[a + n * len(sections)] = a
    else:
        axes = [a for a, n in enumerate(sections) for _ in range(n)]
    out = np.empty(x.shape)
    for b, p, i in np.ndindex(batch, length, dim // 2):
        angle = positions[axes[i], b, p] * base ** (-2 * i / dim)
        c, s = math.cos(angle), math.sin(angle)
        m, n = (2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2)
        out[b, :, p, m] = x[b, :, p, m] * c - x[b, :, p, n] * s
        out[b, :, p, n] = x[b, :, p, m] * s + x[b, :, p, n] * c
    return out


def qk_norm_rotary(q, k, q_weight, k_weight, positions, *, eps=1e-5, base=10000.0, interleaved=False, rotary_dim=None):
    """Each head of q [batch, heads, length, dim] and k [batch, kv_heads, length, dim] normalised, and then turned.

    The weights [dim] are those of all heads; `positions` [batch, length].
    """
    if not eps > 0 or k.shape[-1] != q.shape[-1]:
        raise ValueError("epsilon is positive, and keys have as many channels as queries")
    q, k = rms_norm(q, q_weight, eps=eps), rms_norm(k, k_weight, eps=eps)
    return rotary_pair(q, k, positions, base=base, interleaved=interleaved, rotary_dim=rotary_dim)


def qk_norm_mrope(
    q,
    k,
    q_weight,
    k_weight,
    positions,
    *,
    sections,
    striped=False,
    eps=1e-5,
    base=10000.0,
    interleaved=False,
    rotary_dim=None,
    weight_form="plain",
):
    """Each head of q [batch, heads, length, dim] and k [batch, kv_heads, length, dim] normalised, and then turned.

    The first `rotary_dim` channels of a head are turned by `positions` [axes, batch, length]; `sections` [axes] as
    in `mrope`.
    """
    if not eps > 0 or k.shape[-1] != q.shape[-1]:
        raise ValueError("epsilon is positive, and keys have as many channels as queries")
    width = q.shape[-1] if rotary_dim is None else rotary_dim
    turning = {"sections": sections, "striped": striped, "base": base, "interleaved": interleaved}
    found = {}
    for name, x, weight in (("q_out", q, q_weight), ("k_out", k, k_weight)):
        normed = rms_norm(x, weight, eps=eps, weight_form=weight_form)
        turned = mrope(normed[..., :width], positions, **turning)
        found[name] = np.concatenate([turned, normed[..., width:]], 3)
    return found
