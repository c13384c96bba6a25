"""Which experts a token is sent to, and with which weights.

Shazeer et al. 2017, arXiv:1701.06538, section 2.1; groups and a bias for choosing alone: DeepSeek-AI 2024, DeepSeek-V3,
arXiv:2412.19437, equations 13 to 16. Capacities of experts: Lepikhin et al. 2020, arXiv:2006.16668, algorithm 1; tokens
by their importance: Riquelme et al. 2021, arXiv:2106.05974, section 4.
"""

import math

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
    capacity=None,
    drop_order="by_position",
    renormalised_over="all_chosen",
):
    """The weight of each expert for each token, zero if it is not chosen: logits and result [tokens, experts]."""
    tokens, experts = logits.shape
    n = experts // groups
    if k > kept_groups * n or experts % groups:
        raise ValueError(f"no {k} of {experts} experts can be chosen from {kept_groups} of {groups} groups")
    if capacity is not None and capacity < 1:
        raise ValueError("an expert takes one token at least")
    biased_at_all = np.ndim(bias) > 0
    bias = np.broadcast_to(bias, experts)
    queue, scores, sums = [], [], []
    for t in range(tokens):
        x = logits[t]
        s = np.exp(x - x.max()) / np.exp(x - x.max()).sum() if scoring == "softmax" else 1 / (1 + np.exp(-x))
        biased = s + bias
        best = [sorted(biased[g * n : (g + 1) * n])[::-1] for g in range(groups)]
        by_two = group_score == "top_two" or (group_score == "two_with_bias" and biased_at_all)
        value = [sum(b[:2]) if by_two else b[0] for b in best]
        kept = sorted(range(groups), key=lambda g: -value[g])[:kept_groups]
        there = [e for e in range(experts) if e // n in kept]
        chosen = sorted(there, key=lambda e: -biased[e])[:k]
        scores.append(s)
        sums.append(s[chosen].sum())
        for rank, e in enumerate(chosen):
            order = {
                "by_position": t,
                "by_choice": (rank, t),
                "by_importance": (rank, -s.max(), t),
                "by_weight": (-s[e] / (s[chosen].sum() if renormalise and renormalised_over == "all_chosen" else 1), t),
            }
            queue.append((order[drop_order], t, e))
    kept, places = np.zeros((tokens, experts)), np.full(experts, math.inf if capacity is None else capacity)
    for _, t, e in sorted(queue, key=lambda choice: choice[0]):
        kept[t, e] = places[e] > 0
        places[e] -= 1
    weights = scaling * kept * np.reshape(scores, kept.shape)
    if not renormalise:
        return weights
    over = np.array(sums) if renormalised_over == "all_chosen" else (kept * np.reshape(scores, kept.shape)).sum(1)
    return weights / np.where(over > 0, over, 1)[:, None]
