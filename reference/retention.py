"""Retention: Sun et al. 2023, Retentive network, arXiv:2307.08621, equations 5 and 6; rotations as in torchscale."""

import numpy as np


def _rotated(x, base, offset):
    """Pairs of neighbours as complex numbers, turned by their positions: x [batch, heads, length, key_dim]."""
    if base is None:
        return x
    length, half = x.shape[2], x.shape[3] // 2
    if 2 * half != x.shape[3]:
        raise ValueError("channels come in pairs")
    theta = base ** -np.linspace(0, 1, half)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * np.outer(offset + np.arange(length), theta))
    return np.stack((turned.real, turned.imag), -1).reshape(x.shape)


def retention(q, k, v, state=0.0, *, scale=None, base=None, offset=0, decays="powers", scaled="by_query"):
    """Token by token: out like v [batch, heads, length, value_dim], final_state [batch, heads, key_dim, value_dim]."""
    if k.shape != q.shape or v.shape[:3] != k.shape[:3]:
        raise ValueError("every query has a key, and every key a value")
    heads = q.shape[1]
    if decays == "powers":
        gamma = 1 - 2.0 ** (-5 - np.arange(heads))
    else:
        gamma = 1 - np.exp(np.linspace(np.log(1 / 32), np.log(1 / 512), heads))
    scale = q.shape[3] ** -0.5 if scale is None else scale
    q, k = _rotated(q, base, offset), _rotated(k, base, offset)
    q, k = (scale * q, k) if scaled == "by_query" else (q, scale * k)
    s, out = np.zeros((*q.shape[:2], q.shape[3], v.shape[3])) + state, np.zeros(v.shape)
    for n in range(q.shape[2]):
        s = gamma[:, None, None] * s + k[:, :, n, :, None] * v[:, :, n, None, :]
        out[:, :, n] = np.einsum("bhd,bhde->bhe", q[:, :, n], s)
    return {"out": out, "final_state": s}
