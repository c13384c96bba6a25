"""Tokens through the experts that they are sent to: Shazeer et al. 2017, arXiv:1701.06538, equation 1.

Experts are gated linear units: Jiang et al. 2024, Mixtral of experts, arXiv:2401.04088, section 2.1.
"""

import numpy as np

from .feed_forward import swiglu


def routed_experts(
    x,
    chosen,
    weights,
    w_gate,
    w_up,
    w_down,
    b_gate=None,
    b_up=None,
    b_down=None,
    expert_map=None,
    *,
    alpha=1.0,
    beta=1.0,
    limit=None,
):
    """What the chosen experts make of each token, weighed and added up: [tokens, dim].

    x [tokens, dim], chosen [tokens, k] in numbers of experts, weights [tokens, k], w_gate and w_up
    [experts, dim, hidden], w_down [experts, hidden, dim]; b_gate and b_up [experts, hidden] and b_down [experts, dim]
    are all given or all left out.
    With expert_map [world], choices are numbers of all experts, or -1 for none; the map has the place of each of them
    here, or -1 where another rank has it.
    """
    if weights.shape != chosen.shape:
        raise ValueError("every choice has a weight")
    if b_down is not None and len(b_down) != len(w_down):
        raise ValueError("every expert has a bias")
    out = np.zeros(x.shape)
    for t, j in np.ndindex(chosen.shape):
        c = int(chosen[t, j])
        if expert_map is not None:
            c = -1 if c < 0 else int(expert_map[c])
            if c < 0:
                continue
        if b_gate is None or b_up is None or b_down is None:
            made = swiglu(x[t : t + 1], w_gate[c], w_up[c], w_down[c])[0]
        else:
            made = clamped(x[t] @ w_gate[c] + b_gate[c], x[t] @ w_up[c] + b_up[c], alpha, beta, limit) @ w_down[c]
            made = made + b_down[c]
        out[t] += weights[t, j] * made
    return out


def clamped(gate, up, alpha, beta, limit):
    """What gates let through in gpt-oss: OpenAI 2025, arXiv:2508.10925, section 2.2."""
    if limit is not None:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return gate / (1 + np.exp(-alpha * gate)) * (up + beta)
