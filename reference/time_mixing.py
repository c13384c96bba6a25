"""The time mixing of RWKV, token by token.

RWKV-4: Peng et al. 2023, arXiv:2305.13048, equation 16. RWKV-6: Peng et al. 2024, arXiv:2404.05892, section 4.
RWKV-7: Peng et al. 2025, arXiv:2503.14456, section 4.
"""

import math

import numpy as np


def wkv4(w, u, k, v, past=0.0, lse=-math.inf):
    """Averages of values by exponentials that fall from token to token, each channel by itself.

    w, u [dim], k, v [batch, length, dim], past and lse [batch, dim].
    Returns out, like v, and final_past and final_lse [batch, dim].
    """
    batch, length, dim = k.shape
    if v.shape[1] != length or w.shape != (dim,):
        raise ValueError("every key has a value, and every channel a rate")
    past, lse = (np.broadcast_to(x, (batch, dim)) for x in (past, lse))
    out, final_past, final_lse = np.empty(v.shape), np.empty((batch, dim)), np.empty((batch, dim))
    for b, c in np.ndindex(batch, dim):
        rate = math.exp(w[c])
        for t in range(length + 1):
            logits = [lse[b, c] - t * rate, *(k[b, i, c] - (t - 1 - i) * rate for i in range(t))]
            values = [past[b, c], *v[b, :t, c]]
            if t < length:
                logits.append(u[c] + k[b, t, c])
                values.append(v[b, t, c])
            top = max(logits)
            p = np.exp(np.subtract(logits, top))
            average = p @ values / p.sum()
            if t < length:
                out[b, t, c] = average
            else:
                final_past[b, c], final_lse[b, c] = average, top + math.log(p.sum())
    return {"out": out, "final_past": final_past, "final_lse": final_lse}


def wkv6(r, k, v, w, u, state=0.0, *, scale=1.0):
    """A state that is read before it fades, with a bonus for a token's own key and value.

    r, k, w [batch, heads, length, key_dim], v [batch, heads, length, value_dim], u [heads, key_dim],
    state [batch, heads, key_dim, value_dim]. Returns out, like v, and final_state, like state.
    """
    out, S, s = begun(k, v, state, scale)
    for b, h in np.ndindex(k.shape[:2]):
        for t in range(k.shape[2]):
            kv = np.outer(k[b, h, t], v[b, h, t])
            out[b, h, t] = s * r[b, h, t] @ (S[b, h] + np.diag(u[h]) @ kv)
            S[b, h] = np.diag(np.exp(w[b, h, t])) @ S[b, h] + kv
    return {"out": out, "final_state": S}


def wkv7(r, w, k, v, a, b, state=0.0, *, scale=1.0):
    """A state that fades, moves what it holds for a to b, and takes the value in; then it is read.

    r, w, k, a, b [batch, heads, length, key_dim], v [batch, heads, length, value_dim],
    state [batch, heads, key_dim, value_dim]. Returns out, like v, and final_state, like state.
    """
    out, S, s = begun(k, v, state, scale)
    for i, h in np.ndindex(k.shape[:2]):
        for t in range(k.shape[2]):
            A = np.diag(np.exp(w[i, h, t])) + np.outer(b[i, h, t], a[i, h, t])
            S[i, h] = A @ S[i, h] + np.outer(k[i, h, t], v[i, h, t])
            out[i, h, t] = s * r[i, h, t] @ S[i, h]
    return {"out": out, "final_state": S}


def begun(k, v, state, scale):
    """Room for the outputs, the states that heads begin with, and the scale."""
    batch, heads, length, d = k.shape
    if v.shape[2] != length or np.shape(state)[2:3] not in ((), (d,)):
        raise ValueError("every key has a value, and a state a row for each channel of the keys")
    S = np.array(np.broadcast_to(state, (batch, heads, d, v.shape[3])), float)
    return np.empty(v.shape), S, 1 / math.sqrt(d) if scale is None else scale
