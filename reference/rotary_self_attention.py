"""The attention layer of a decoder, one head at a time, its queries and keys rotated by their positions.

Su et al. 2021, RoFormer, arXiv:2104.09864, equation 14. Shared heads of keys and values: Ainslie et al. 2023,
arXiv:2305.13245. A rotary width: Black et al. 2022, arXiv:2204.06745, section 2.1.1.
"""

import numpy as np

from .attention import attention
from .decoder import rotated
from .multi_head import columns_of_a_head
from .norms import rms_norm


def rotary_self_attention(
    x,
    wq,
    wk,
    wv,
    wo,
    *,
    heads,
    kv_heads=None,
    bq=None,
    bk=None,
    bv=None,
    bo=None,
    q_norm=None,
    k_norm=None,
    base=10000.0,
    rotary_dim=None,
    eps=1e-6,
    causal=True,
    pairing="halves",
):
    """Tokens x [batch, length, dim] to [batch, length, dim], each of itself and those before it, or of all.

    wq [dim, heads * d], wk and wv [dim, kv_heads * d], wo [heads * d, dim], and a bias for each, as long as it is wide;
    q_norm and k_norm [d].
    """
    G = heads if kv_heads is None else kv_heads
    d = columns_of_a_head(wq, wk, wv, wo, heads, G)
    w = d if rotary_dim is None else rotary_dim
    if w % 2 or not 0 < w <= d or base <= 0 or eps <= 0:
        raise ValueError(f"{w} of {d} channels cannot be rotated in pairs")
    bq, bk, bv, bo = (0 * m[0] if b is None else b for m, b in ((wq, bq), (wk, bk), (wv, bv), (wo, bo)))

    def turned(a, norm):
        a = a if norm is None else rms_norm(a, norm, eps=eps)
        return np.concatenate([rotated(a[..., :w], base, pairing), a[..., w:]], axis=-1)

    out = np.zeros(x.shape)
    for h in range(heads):
        g = h // (heads // G)
        own, shared = slice(h * d, (h + 1) * d), slice(g * d, (g + 1) * d)
        Q = turned(x @ wq[:, own] + bq[own], q_norm)  # [batch, length, d]
        K = turned(x @ wk[:, shared] + bk[shared], k_norm)
        V = x @ wv[:, shared] + bv[shared]
        out += attention(Q[:, None], K[:, None], V[:, None], causal=causal)["out"][:, 0] @ wo[own]
    return out + bo
