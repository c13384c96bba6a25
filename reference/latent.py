"""Multi-head latent attention, one head and one query at a time.

DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434, section 2.1.2, equations 9 to 19.
Symbols are those of the paper: c^{KV} is `latent`, k^R is `k_rope`, W^{UK} and W^{UV} are `w_uk` and `w_uv`.
"""

import math

import numpy as np

from .attention import shares
from .positions import rotary


def latent_attention(
    q_nope,
    q_rope,
    latent,
    k_rope,
    w_uk,
    w_uv,
    *,
    scale=None,
    causal=False,
    base=None,
    interleaved=False,
    lse_base="natural",
):
    """Attention over keys and values that every head makes of latents, with its logsumexp.

    q_nope [batch, heads, q_len, nope_dim], q_rope [batch, heads, q_len, rope_dim], latent [batch, k_len, rank],
    k_rope [batch, k_len, rope_dim], w_uk [heads, rank, nope_dim], w_uv [heads, rank, value_dim]; the queries are those
    of the last q_len tokens. With `base`, both rope parts are turned by the positions of their tokens first.
    Returns out [batch, heads, q_len, value_dim] and lse [batch, heads, q_len].
    """
    (batch, heads, q_len, nope_dim), (_, k_len, rope_dim) = q_nope.shape, k_rope.shape
    if not 0 < k_len >= q_len:
        raise ValueError("queries are those of the last tokens")
    if base is not None:
        turn = {"base": base, "interleaved": interleaved}
        q_rope = rotary(q_rope, np.arange(k_len - q_len, k_len), **turn)
        k_rope = rotary(k_rope[:, None], np.arange(k_len), **turn)[:, 0]
    s = 1 / math.sqrt(nope_dim + rope_dim) if scale is None else scale
    out, lse = np.zeros((batch, heads, q_len, w_uv.shape[2])), np.zeros((batch, heads, q_len))
    for b, h, i in np.ndindex(batch, heads, q_len):
        seen = k_len - q_len + i + 1 if causal else k_len
        k = np.concatenate([latent[b, :seen] @ w_uk[h], k_rope[b, :seen]], axis=1)
        q = np.concatenate([q_nope[b, h, i], q_rope[b, h, i]])
        a, total = shares(s * k @ q, None)
        out[b, h, i] = a @ (latent[b, :seen] @ w_uv[h])
        lse[b, h, i] = total / math.log(2) if lse_base == "two" else total
    return {"out": out, "lse": lse}
