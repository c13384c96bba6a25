"""A language model with a window in some of its layers, sinks, and rows that are filled up in front.

Jiang et al. 2023, Mistral 7B, arXiv:2310.06825, section 2; Gemma Team 2024, Gemma 2, arXiv:2408.00118, section 2;
OpenAI 2025, gpt-oss, arXiv:2508.10925, section 2.1. Each row is computed alone, without what fills it up.
"""

import numpy as np

from .attention import attention
from .decoder import checked, rotated, split
from .feed_forward import swiglu
from .norms import rms_norm


def windowed_decoder(
    tokens,
    embedding,
    *weights,
    present=True,
    sinks=-np.inf,
    heads,
    kv_heads=None,
    window=None,
    eps=1e-5,
    base=10000.0,
    pairing="halves",
):
    """Logits [batch, length, vocab] of tokens [batch, length], NaN where `present` [batch, length] is false.

    The weights are those of `decoder` in its order, and `windowed` [layers], which says where the window is;
    sinks [layers, heads].
    """
    *stacked, final_norm, windowed = weights
    sinks = np.broadcast_to(sinks, (len(windowed), heads))
    windows = [window if there else None for there in windowed]
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < len(embedding):
        raise ValueError("every token has a row in the embedding")
    logits = np.full((*tokens.shape, len(embedding)), np.nan)
    for item, shown in enumerate(np.broadcast_to(present, tokens.shape)):
        x = embedding[tokens[item, shown]]  # [length of the row, dim]
        for at, layer in enumerate(zip(*stacked, strict=True)):
            x = block(x, layer, sinks[at], windows[at], heads, kv_heads or heads, eps, base, pairing)
        logits[item, shown] = rms_norm(x, final_norm, eps=eps) @ embedding.T
    return logits


def block(x, weights, sink, window, heads, kv_heads, eps, base, pairing):
    """Tokens x [length, dim] after attention to a window and a gated feed-forward."""
    first, wq, wk, wv, wo, second, w_gate, w_up, w_down = weights
    checked(wq, wk, wv, wo, heads, kv_heads)
    a = rms_norm(x, first, eps=eps)
    q, k = rotated(split(a @ wq, heads), base, pairing), rotated(split(a @ wk, kv_heads), base, pairing)
    left = None if window is None else window - 1
    o = attention(q[None], k[None], split(a @ wv, kv_heads)[None], causal=True, window_left=left, sink=sink)["out"][0]
    h = x + np.concatenate(list(o), axis=1) @ wo
    return h + swiglu(rms_norm(h, second, eps=eps), w_gate, w_up, w_down)
