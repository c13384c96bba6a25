"""Multi-head attention, one head at a time.

Vaswani et al. 2017, Attention is all you need, section 3.2.2.
Heads of keys and values that several query heads share: Ainslie et al. 2023, arXiv:2305.13245.
"""

import numpy as np

from .attention import attention


def multi_head(
    x,
    context,
    wq,
    wk,
    wv,
    wo,
    *,
    heads,
    kv_heads=None,
    mask=None,
    bq=None,
    bk=None,
    bv=None,
    bo=None,
    causal=False,
    causal_alignment="bottom_right",
    empty_row="zeros",
    grouping="block",
):
    """Queries from `x [batch, q_len, dim]`, keys and values from `context [batch, k_len, dim]`: `[batch, q_len, dim]`.

    wq [dim, heads * d], wk and wv [dim, kv_heads * d], wo [heads * d, dim], and a bias for each, as long as it is wide;
    mask (True: may attend) broadcasts to [batch, heads, q_len, k_len].
    """
    H = heads
    G = H if kv_heads is None else kv_heads
    d = columns_of_a_head(wq, wk, wv, wo, H, G)
    batch, q_len, dim = x.shape
    bq, bk, bv, bo = (0 * w[0] if b is None else b for w, b in ((wq, bq), (wk, bk), (wv, bv), (wo, bo)))
    mask = np.broadcast_to(True if mask is None else mask, (batch, H, q_len, context.shape[1]))
    words: dict = {"causal_alignment": causal_alignment, "empty_row": empty_row}

    out = np.zeros((batch, q_len, dim)) + bo
    for h in range(H):
        g = h // (H // G) if grouping == "block" else h % G
        own, shared = slice(h * d, (h + 1) * d), slice(g * d, (g + 1) * d)
        Q = x @ wq[:, own] + bq[own]  # [batch, q_len, d]
        K = context @ wk[:, shared] + bk[shared]  # [batch, k_len, d]
        V = context @ wv[:, shared] + bv[shared]
        head = attention(Q[:, None], K[:, None], V[:, None], mask=mask[:, h : h + 1], causal=causal, **words)["out"]
        out += head[:, 0] @ wo[own]
    return out


def columns_of_a_head(wq, wk, wv, wo, H, G):
    """How many columns of the maps belong to one head; maps of which that cannot be said are a `ValueError`."""
    if H < 1 or G < 1 or H % G:
        raise ValueError(f"{H} heads cannot share {G} heads of keys and values")
    d, rest = divmod(wq.shape[1], H)
    if rest or d < 1:
        raise ValueError(f"{wq.shape[1]} columns are not {H} heads")
    if (wk.shape[1], wv.shape[1], wo.shape[0]) != (G * d, G * d, H * d):
        raise ValueError(f"maps of {wk.shape[1]}, {wv.shape[1]} and {wo.shape[0]} columns do not fit heads of {d}")
    return d
