"""Which experts a token is sent to, and with which weights.

Shazeer et al. 2017, arXiv:1701.06538, section 2.1; groups and a bias for choosing alone: DeepSeek-AI 2024, DeepSeek-V3,
arXiv:2412.19437, equations 13 to 16.
"""

import numpy as np


def moe_routing(
    logits,
    bias=0.0,
    *,
    k,
    scoring="softmax",
    groups=1,
    kept_groups=1,
    renormalise=False,
    scaling=1.0,
    group_score="top_two",
):
    """The weight of each expert for each token, zero if it is not chosen: logits and result [tokens, experts]."""
    tokens, experts = logits.shape
    n = experts // groups
    if k > kept_groups * n or experts % groups:
        raise ValueError(f"no {k} of {experts} experts can be chosen from {kept_groups} of {groups} groups")
    weights, bias = np.zeros((tokens, experts)), np.broadcast_to(bias, experts)
    for t in range(tokens):
        x = logits[t]
        s = np.exp(x - x.max()) / np.exp(x - x.max()).sum() if scoring == "softmax" else 1 / (1 + np.exp(-x))
        biased = s + bias
        best = [sorted(biased[g * n : (g + 1) * n])[::-1] for g in range(groups)]
        value = [sum(b[:2]) if group_score == "top_two" else b[0] for b in best]
        kept = sorted(range(groups), key=lambda g: -value[g])[:kept_groups]
        there = [e for e in range(experts) if e // n in kept]
        chosen = sorted(there, key=lambda e: -biased[e])[:k]
        weights[t, chosen] = scaling * s[chosen] / (s[chosen].sum() if renormalise else 1)
    return weights
