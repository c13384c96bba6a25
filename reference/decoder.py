"""A pre-norm transformer block, and a language model of such blocks.

Vaswani et al. 2017, Attention is all you need, arXiv:1706.03762; Xiong et al. 2020, arXiv:2002.04745 (pre-norm);
Touvron et al. 2023, LLaMA, arXiv:2302.13971, section 2.2. Rotary positions: Su et al. 2021, arXiv:2104.09864,
equation 14, as products with complex numbers of length one.
"""

import numpy as np

from .attention import attention
from .feed_forward import swiglu
from .norms import rms_norm


def transformer_block(
    x,
    attention_norm,
    wq,
    wk,
    wv,
    wo,
    mlp_norm,
    w_gate,
    w_up,
    w_down,
    *,
    heads,
    kv_heads=None,
    eps=1e-5,
    base=10000.0,
    pairing="halves",
):
    """Tokens x [batch, length, dim] after attention and a gated feed-forward, each of a normalised copy, each added.

    wq [dim, heads * head_dim], wk and wv [dim, kv_heads * head_dim], wo [heads * head_dim, dim];
    w_gate and w_up [dim, hidden], w_down [hidden, dim]; both norms [dim].
    """
    kv_heads = heads if kv_heads is None else kv_heads
    checked(wq, wk, wv, wo, heads, kv_heads)
    out = np.empty(x.shape)
    for item, tokens in enumerate(x):
        a = rms_norm(tokens, attention_norm, eps=eps)  # [length, dim]
        q = rotated(split(a @ wq, heads), base, pairing)
        k = rotated(split(a @ wk, kv_heads), base, pairing)
        o = attention(q[None], k[None], split(a @ wv, kv_heads)[None], causal=True)["out"][0]
        h = tokens + np.concatenate(list(o), axis=1) @ wo
        out[item] = h + swiglu(rms_norm(h, mlp_norm, eps=eps), w_gate, w_up, w_down)
    return out


def decoder(tokens, embedding, *weights, heads, kv_heads=None, eps=1e-5, base=10000.0, pairing="halves"):
    """Logits [batch, length, vocab] of tokens [batch, length]: blocks between two uses of embedding [vocab, dim].

    The weights are those of `transformer_block` in its order, each with a first axis of layers, and a last norm [dim].
    """
    *stacked, final_norm = weights
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < len(embedding):
        raise ValueError("every token has a row in the embedding")
    x = embedding[tokens]  # [batch, length, dim]
    for layer in zip(*stacked, strict=True):
        x = transformer_block(x, *layer, heads=heads, kv_heads=kv_heads, eps=eps, base=base, pairing=pairing)
    return rms_norm(x, final_norm, eps=eps) @ embedding.T


def checked(wq, wk, wv, wo, heads, kv_heads):
    """Raise `ValueError` for matrices that these heads do not divide."""
    if heads < 1 or kv_heads < 1 or heads % kv_heads or wq.shape[1] % (2 * heads) or not wq.size:
        raise ValueError("heads are a multiple of kv_heads, and each has an even number of channels")
    head_dim = wq.shape[1] // heads
    if wk.shape != (len(wq), kv_heads * head_dim) or wv.shape != wk.shape or wo.shape != wq.shape[::-1]:
        raise ValueError("wk and wv are [dim, kv_heads * head_dim], and wo is [heads * head_dim, dim]")


def split(x, heads):
    """Consecutive channels of x [length, heads * head_dim] to the heads: [heads, length, head_dim]."""
    return np.stack(np.split(x, heads, axis=1))


def rotated(x, base, pairing):
    """Each pair of channels of x [heads, length, d] turned by its token's position times base ** (-2 i / d)."""
    d = x.shape[2]
    first, second = (slice(0, d // 2), slice(d // 2, d)) if pairing == "halves" else (slice(0, d, 2), slice(1, d, 2))
    theta = np.array([base ** (-2 * i / d) for i in range(d // 2)])
    z = (x[..., first] + 1j * x[..., second]) * np.exp(1j * np.outer(np.arange(x.shape[1]), theta))
    out = np.empty(x.shape)
    out[..., first], out[..., second] = z.real, z.imag
    return out
