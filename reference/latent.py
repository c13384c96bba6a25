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


def latent_pages(
    q,
    rows,
    table,
    k_lens,
    *,
    value_dim,
    scale=None,
    sink=None,
    empty_row="zeros",
    masked_nonfinite="ignored",
    unused_entries="unread",
    lse_base="natural",
):
    """Absorbed attention over pages of rows, token by token, with its logsumexp.

    q [batch, q_len, heads, width], rows [pages, page_size, width], table [batch, max_pages], k_lens [batch]; a row's
    first `value_dim` channels are its value; `sink` [heads] is one more score of every query, without a value.
    Returns out [batch, q_len, heads, value_dim], lse [batch, heads, q_len].
    """
    (batch, q_len, heads, width), page_size = q.shape, rows.shape[1]
    if rows.shape[2] != width or len(table) != batch or len(k_lens) != batch:
        raise ValueError("queries are as wide as rows, and every item has a table and a length")
    s = 1 / math.sqrt(width) if scale is None else scale
    out = np.full((batch, q_len, heads, value_dim), 0.0 if empty_row == "zeros" or sink is not None else math.nan)
    lse = np.full((batch, heads, q_len), -math.inf)
    for b, i, h in np.ndindex(batch, q_len, heads):
        tokens = [rows[table[b, t // page_size], t % page_size] for t in range(k_lens[b] - q_len + i + 1)]
        if not tokens:
            continue
        seen = np.stack(tokens)
        a, total = shares(s * seen @ q[b, i, h], None if sink is None else sink[h])
        out[b, i, h] = a @ seen[:, :value_dim]
        lse[b, h, i] = total / math.log(2) if lse_base == "two" else total
    return {"out": out, "lse": lse}
