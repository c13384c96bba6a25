"""The choice of keys before sparse attention, one query at a time.

DeepSeek-AI 2025, DeepSeek-V3.2, arXiv:2512.02556, section 2.1: the index score of equation 1, and its largest.
"""

import numpy as np


def lightning_indexer(q, k, w, *, top_k=3, causal=True, k_scale=None):
    """Which keys are chosen: booleans [batch, q_len, k_len], the earlier of equal scores.

    q [batch, q_len, heads, head_dim], k [batch, k_len, head_dim], w [batch, q_len, heads];
    of codes, `k_scale` [batch, k_len] is what each key is multiplied by.
    """
    if k_scale is not None:
        if k_scale.shape != k.shape[:2]:
            raise ValueError(f"scales {k_scale.shape} for keys {k.shape}")
        k = k * k_scale[..., None]
    batch, q_len, heads, width = q.shape
    k_len = k.shape[1]
    if k.shape[2] != width or w.shape != (batch, q_len, heads):
        raise ValueError(f"keys {k.shape} and weights {w.shape} for queries {q.shape}")
    chosen = np.zeros((batch, q_len, k_len), bool)
    for b, i in np.ndindex(batch, q_len):
        reach = k_len - q_len + i + 1 if causal else k_len
        scores = [sum(w[b, i, h] * max(q[b, i, h] @ k[b, s], 0.0) for h in range(heads)) for s in range(max(reach, 0))]
        ranked = sorted(range(len(scores)), key=lambda s: -scores[s])
        chosen[b, i, ranked[:top_k]] = True
    return chosen
