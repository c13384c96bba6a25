"""What a cotangent of the outputs is for the inputs of states that go from token to token: forward, and then back.

By the chain rule through each step as the forward function takes it, from the last token to the first: the method of
Werbos 1990, Backpropagation through time: what it does and how to do it, https://doi.org/10.1109/5.58337.
"""

import math

import numpy as np

from .gradients import alike
from .linear_attention import FEATURES


def gated_delta_rule_gradient(
    q, k, v, beta, d_out, gate=0.0, state=0.0, d_final_state=0.0, *, scale=None, normalise=False
):
    """Of gated_delta_rule, for d_out [batch, heads, length, value_dim] and d_final_state, like the state.

    Returns `d_q`, `d_k`, `d_v`, `d_beta`, `d_gate` and `d_state`, the last two 0 where there is no such input.
    """
    gates = np.broadcast_to(gate, beta.shape)[..., None]
    found = back_through_erasing(q, k, v, gates, beta, d_out, state, scale, normalise, d_final_state)
    return found | given(d_gate=(found["d_gate"].sum(3), gate), d_state=(found["d_state"], state))


def kimi_delta_attention_gradient(q, k, v, gate, beta, d_out, state=0.0, *, scale=None, normalise=False):
    """Of kimi_delta_attention, for d_out [batch, heads, length, value_dim].

    Returns `d_q`, `d_k`, `d_v`, `d_gate`, `d_beta` and `d_state`, the last one 0 where there is no state.
    """
    found = back_through_erasing(q, k, v, gate, beta, d_out, state, scale, normalise)
    return found | given(d_state=(found["d_state"], state))


def back_through_erasing(q, k, v, gate, beta, d_out, state, scale, normalise, d_final_state=0.0):
    """Of the delta rule with gates [batch, heads, length, key_dim], or 1 in place of key_dim; `d_gate` by channels."""
    alike(v, d_out)
    batch, key_heads, length, d = k.shape
    heads, e = v.shape[1], v.shape[3]
    if v.shape[2] != length:
        raise ValueError("every key has a value")
    s = 1 / math.sqrt(d) if scale is None else scale
    first, last = (np.broadcast_to(x, (batch, heads, d, e)) for x in (state, d_final_state))
    d_q, d_k, d_v, d_beta = (np.zeros(x.shape) for x in (q, k, v, beta))
    d_gate, d_state = np.zeros((batch, heads, length, d)), np.zeros((batch, heads, d, e))
    for b, h in np.ndindex(batch, heads):
        g = h // (heads // key_heads)
        S, steps = first[b, h], []
        for t in range(length):
            alpha = np.exp(gate[b, h, t])[:, None]
            q_t, k_t = (unit(x[b, g, t]) if normalise else x[b, g, t] for x in (q, k))
            error = v[b, h, t] - k_t @ (alpha * S)
            S, before = alpha * S + np.outer(k_t, beta[b, h, t] * error), S
            steps.append((alpha, q_t, k_t, error, before, S))
        dS = last[b, h]
        for t in reversed(range(length)):
            alpha, q_t, k_t, error, before, S = steps[t]
            dq_t = s * S @ d_out[b, h, t]
            dS = dS + np.outer(s * q_t, d_out[b, h, t])
            d_beta[b, h, t] = k_t @ dS @ error
            d_error = beta[b, h, t] * (dS.T @ k_t)
            d_v[b, h, t] = d_error
            dk_t = dS @ (beta[b, h, t] * error) - alpha * before @ d_error
            d_decayed = dS - np.outer(k_t, d_error)
            d_gate[b, h, t] = (alpha * d_decayed * before).sum(1)
            dS = alpha * d_decayed
            d_q[b, g, t] += through_unit(q[b, g, t], dq_t) if normalise else dq_t
            d_k[b, g, t] += through_unit(k[b, g, t], dk_t) if normalise else dk_t
        d_state[b, h] = dS
    return {"d_q": d_q, "d_k": d_k, "d_v": d_v, "d_gate": d_gate, "d_beta": d_beta, "d_state": d_state}


def given(**gradients):
    """Gradients of the inputs that are arrays; 0 of one that is absent."""
    return {name: d if np.ndim(x) else 0.0 for name, (d, x) in gradients.items()}


def unit(x):
    return x / math.sqrt(x @ x + 1e-6)


def through_unit(x, d):
    """What a cotangent of unit(x) is for x, by the quotient rule."""
    n = math.sqrt(x @ x + 1e-6)
    return d / n - x * (x @ d) / n**3


def linear_attention_gradient(
    q,
    k,
    v,
    d_out,
    gate=0.0,
    state=0.0,
    key_sum=0.0,
    d_final_state=0.0,
    *,
    scale=None,
    feature_map="identity",
    normalise=False,
    eps=1e-6,
    causal=True,
    eps_place="to_normaliser",
):
    """Of linear_attention, for d_out [batch, heads, length, value_dim] and d_final_state, like the state.

    Returns `d_q`, `d_k`, `d_v`, `d_gate`, `d_state` and `d_key_sum`, the last three 0 where there is no such input.
    By weights: token t reads w[t, u] of the value of token u, [batch, heads, length, length], where
    w[t, u] = sum_c q[t, c] k[u, c] exp(gates between u and t in c), and the state as the token before the first.
    """
    alike(v, d_out)
    batch, heads, length, d = k.shape
    if v.shape[2] != length:
        raise ValueError("every key has a value")
    s = 1 / math.sqrt(d) if scale is None else scale
    mapped_q, mapped_k = s * FEATURES[feature_map](q), FEATURES[feature_map](k)
    slope_q, slope_k = s * SLOPES[feature_map](q), SLOPES[feature_map](k)
    gates = np.broadcast_to(gate, k.shape)
    S0, z0 = np.broadcast_to(state, (batch, heads, d, v.shape[3])), np.broadcast_to(key_sum, (batch, heads, d))
    d_mq, d_mk, d_v, d_g = np.zeros(k.shape), np.zeros(k.shape), np.zeros(v.shape), np.zeros(k.shape)
    d_S0, d_z0 = np.zeros(S0.shape), np.zeros(z0.shape)
    for t in range(length):
        seen = range(t + 1 if causal else length)
        left = {u: np.exp(gates[:, :, u + 1 : t + 1].sum(2)) for u in (-1, *seen)}  # of the state, and of each token
        query = mapped_q[:, :, t]
        products = {u: query * left[u] * mapped_k[:, :, u] for u in seen}  # [batch, heads, d]
        own = np.einsum("bhd,bhde->bhe", query * left[-1], S0)
        numerator = own + sum(w.sum(2)[..., None] * v[:, :, u] for u, w in products.items())
        divisor = (query * left[-1] * z0).sum(2) + sum(w.sum(2) for w in products.values())
        divisor = divisor + (eps if eps_place == "to_normaliser" else eps * query.sum(2))
        d_num = d_out[:, :, t] / divisor[..., None] if normalise else d_out[:, :, t]
        d_div = -(d_out[:, :, t] * numerator).sum(2) / divisor**2 if normalise else np.zeros(divisor.shape)
        d_own = np.einsum("bhe,bhde->bhd", d_num, S0) + d_div[..., None] * z0  # of the query times what is left
        d_mq[:, :, t] = left[-1] * d_own + (eps * d_div[..., None] if eps_place == "to_keys" else 0)
        d_S0 += (query * left[-1])[..., None] * d_num[:, :, None]
        d_z0 += query * left[-1] * d_div[..., None]
        d_g[:, :, : t + 1] += (query * left[-1] * d_own)[:, :, None]
        for u, w in products.items():
            d_w = (d_num * v[:, :, u]).sum(2)[..., None] + d_div[..., None]
            d_mq[:, :, t] += left[u] * mapped_k[:, :, u] * d_w
            d_mk[:, :, u] += left[u] * query * d_w
            d_v[:, :, u] += w.sum(2)[..., None] * d_num
            d_g[:, :, u + 1 : t + 1] += (w * d_w)[:, :, None]
    asked = np.broadcast_to(d_final_state, S0.shape)  # raises unless it is like the state
    for u in range(-1, length):
        kept = np.exp(gates[:, :, u + 1 :].sum(2))[..., None] * asked
        if u < 0:
            d_S0 += kept
            share = (kept * S0).sum(3)
        else:
            d_mk[:, :, u] += (kept * v[:, :, u, None]).sum(3)
            d_v[:, :, u] += (kept * mapped_k[:, :, u, :, None]).sum(2)
            share = (kept * mapped_k[:, :, u, :, None] * v[:, :, u, None]).sum(3)
        d_g[:, :, u + 1 :] += share[:, :, None]
    d_gate = d_g if np.shape(gate)[3:] == (d,) else d_g.sum(3, keepdims=True)
    found = {"d_q": slope_q * d_mq, "d_k": slope_k * d_mk, "d_v": d_v}
    return found | given(d_gate=(d_gate, gate), d_state=(d_S0, state), d_key_sum=(d_z0, key_sum))


SLOPES = {
    "identity": np.ones_like,
    "elu": lambda x: np.where(x > 0, 1.0, np.exp(np.minimum(x, 0))),
    "relu": lambda x: np.where(x == 0, np.nan, x > 0),  # at zero there is none
}


def state_space_gradient(x, dt, a, b, c, d_out, d=0.0, dt_bias=0.0, state=0.0, *, softplus=False):
    """Of state_space, for d_out [batch, heads, length, head_dim].

    Returns `d_x`, `d_dt`, `d_a`, `d_b`, `d_c`, `d_d`, `d_dt_bias` and `d_state`, the last three 0 where there is no
    such input.
    """
    alike(x, d_out)
    batch, heads, length, p = x.shape
    if dt.shape != x.shape[:3]:
        raise ValueError("every token has a step")
    shifted = dt + np.broadcast_to(dt_bias, heads)[:, None]
    step = np.logaddexp(0, shifted) if softplus else shifted
    skip, first = np.broadcast_to(d, heads), np.broadcast_to(state, (batch, heads, p, b.shape[3]))
    d_x, d_step, d_a, d_b, d_c = (np.zeros(y.shape) for y in (x, dt, a, b, c))
    d_state = np.zeros(first.shape)
    for i, h in np.ndindex(batch, heads):
        g = h // (heads // b.shape[1])
        states = [first[i, h]]
        for t in range(length):
            added = step[i, h, t] * np.outer(x[i, h, t], b[i, g, t])
            states.append(math.exp(a[h] * step[i, h, t]) * states[-1] + added)
        dS = np.zeros(first.shape[2:])
        for t in reversed(range(length)):
            fade, x_t, b_t = math.exp(a[h] * step[i, h, t]), x[i, h, t], b[i, g, t]
            d_c[i, g, t] += d_out[i, h, t] @ states[t + 1]
            dS = dS + np.outer(d_out[i, h, t], c[i, g, t])
            d_x[i, h, t] = step[i, h, t] * dS @ b_t + skip[h] * d_out[i, h, t]
            d_b[i, g, t] += step[i, h, t] * x_t @ dS
            d_fade = np.vdot(dS, states[t])
            d_step[i, h, t] = x_t @ dS @ b_t + a[h] * fade * d_fade
            d_a[h] += step[i, h, t] * fade * d_fade
            dS = fade * dS
        d_state[i, h] = dS
    d_dt = d_step / (1 + np.exp(-shifted)) if softplus else d_step
    d_d, d_dt_bias = (x * d_out).sum((0, 2, 3)), d_dt.sum((0, 2))
    found = {"d_x": d_x, "d_dt": d_dt, "d_a": d_a, "d_b": d_b, "d_c": d_c}
    return found | given(d_d=(d_d, d), d_dt_bias=(d_dt_bias, dt_bias), d_state=(d_state, state))


def selective_scan_gradient(x, dt, a, b, c, d_out, d=0.0, z=0.0, dt_bias=0.0, state=0.0, *, softplus=False):
    """Of selective_scan, for d_out [batch, channels, length].

    Returns `d_x`, `d_dt`, `d_a`, `d_b`, `d_c`, `d_d`, `d_z`, `d_dt_bias` and `d_state`, the last four 0 where there is
    no such input.
    """
    alike(x, d_out)
    batch, channels, length = x.shape
    if dt.shape != x.shape:
        raise ValueError("every token has a step")
    shifted = dt + np.broadcast_to(dt_bias, channels)[:, None]
    step = np.logaddexp(0, shifted) if softplus else shifted
    skip, n = np.broadcast_to(d, channels), b.shape[1]
    s = 1 / (1 + np.exp(-np.broadcast_to(z, x.shape)))
    d_whole = d_out * z * s if np.ndim(z) else d_out
    first = np.broadcast_to(state, (batch, channels, n))
    d_x, d_step, d_a, d_b, d_c, whole = (np.zeros(y.shape) for y in (x, dt, a, b, c, x))
    d_state = np.zeros(first.shape)
    for i, h in np.ndindex(batch, channels):
        states = [first[i, h]]
        for t in range(length):
            states.append(np.exp(a[h] * step[i, h, t]) * states[-1] + step[i, h, t] * x[i, h, t] * b[i, :, t])
            whole[i, h, t] = states[-1] @ c[i, :, t] + skip[h] * x[i, h, t]
        dh = np.zeros(n)
        for t in reversed(range(length)):
            dy = d_whole[i, h, t]
            d_c[i, :, t] += dy * states[t + 1]
            dh = dh + dy * c[i, :, t]
            d_x[i, h, t] = step[i, h, t] * dh @ b[i, :, t] + skip[h] * dy
            d_b[i, :, t] += step[i, h, t] * x[i, h, t] * dh
            fade = np.exp(a[h] * step[i, h, t])
            d_fade = fade * dh * states[t]
            d_step[i, h, t] = x[i, h, t] * dh @ b[i, :, t] + a[h] @ d_fade
            d_a[h] += step[i, h, t] * d_fade
            dh = fade * dh
        d_state[i, h] = dh
    d_dt = d_step / (1 + np.exp(-shifted)) if softplus else d_step
    d_d, d_dt_bias = (x * d_whole).sum((0, 2)), d_dt.sum((0, 2))
    d_z = d_out * whole * s * (1 + z * (1 - s))
    found = {"d_x": d_x, "d_dt": d_dt, "d_a": d_a, "d_b": d_b, "d_c": d_c}
    return found | given(d_d=(d_d, d), d_z=(d_z, z), d_dt_bias=(d_dt_bias, dt_bias), d_state=(d_state, state))


def short_convolution_gradient(x, weight, d_out, bias=0.0, state=0.0, d_final_state=0.0, *, silu=False):
    """Of short_convolution, for d_out [batch, channels, length] and d_final_state [batch, channels, width - 1].

    Returns `d_x`, `d_weight`, `d_bias` and `d_state`, the last two 0 where there is no such input.
    """
    alike(x, d_out)
    batch, channels, length = x.shape
    if len(weight) != channels:
        raise ValueError("every channel has weights")
    width = weight.shape[1]
    first = np.broadcast_to(state, (batch, channels, width - 1))
    whole, d_whole = np.concatenate([first, x], 2), np.zeros((batch, channels, width - 1 + length))
    d_weight, d_bias = np.zeros(weight.shape), np.zeros(channels)
    for t in range(length):
        last = whole[:, :, t : t + width]
        y = (last * weight).sum(2) + bias
        d = d_out[:, :, t]
        if silu:
            d = d * ((1 + np.exp(-y) + y * np.exp(-y)) / (1 + np.exp(-y)) ** 2)  # of y / (1 + exp(-y))
        d_whole[:, :, t : t + width] += d[..., None] * weight
        d_weight += (d[..., None] * last).sum(0)
        d_bias += d.sum(0)
    d_whole[:, :, length:] += d_final_state
    found = {"d_x": d_whole[:, :, width - 1 :], "d_weight": d_weight}
    return found | given(d_bias=(d_bias, bias), d_state=(d_whole[:, :, : width - 1], state))


def packed_convolution_gradient(x, weight, lens, d_out, bias=0.0, state=0.0, d_final_state=0.0, *, silu=False):
    """Of packed_convolution, for d_out [tokens, channels] and d_final_state [items, channels, width - 1].

    Returns `d_x`, `d_weight`, `d_bias` and `d_state`, the last two 0 where there is no such input.
    """
    alike(x, d_out)
    shape = (len(lens), len(weight), weight.shape[1] - 1)
    given_states, asked = (np.broadcast_to(s, shape) for s in (state, d_final_state))
    d_x, d_weight, d_bias, d_state = np.zeros(x.shape), np.zeros(weight.shape), np.zeros(len(weight)), np.zeros(shape)
    end = 0
    for b, length in enumerate(lens):
        here = slice(end, end := end + int(length))
        rows, d = x[here].T[None], d_out[here].T[None]
        inputs = {"bias": bias + 0 * d_bias, "state": given_states[b : b + 1]}
        found = short_convolution_gradient(rows, weight, d, silu=silu, **inputs)
        d_whole = np.concatenate([found["d_state"], found["d_x"]], 2)[0]  # [channels, width - 1 + length]
        d_whole[:, int(length) :] += asked[b]
        d_state[b], d_x[here] = d_whole[:, : shape[2]], d_whole[:, shape[2] :].T
        d_weight += found["d_weight"]
        d_bias += found["d_bias"]
    return {"d_x": d_x, "d_weight": d_weight} | given(d_bias=(d_bias, bias), d_state=(d_state, state))
