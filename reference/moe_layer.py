"""A mixture-of-experts layer: Shazeer et al. 2017, arXiv:1701.06538, equation 1; Jiang et al. 2024, 2401.04088."""

from __future__ import annotations

import numpy as np

from .feed_forward import swiglu
from .moe_routing import moe_routing


def moe_layer(x, w_router, w_gate, w_up, w_down, *, k, scoring="softmax", renormalise=False, scaling=1.0):
    """What the k best experts of each token make of it, weighed by the router and added up: [tokens, dim].

    x [tokens, dim], w_router [dim, experts], w_gate and w_up [experts, dim, hidden], w_down [experts, hidden, dim].
    """
    out = np.zeros(x.shape)
    for t, token in enumerate(x):
        logits = token @ w_router
        (weights,) = moe_routing(logits[None], k=k, scoring=scoring, renormalise=renormalise, scaling=scaling)
        for expert in np.argsort(-logits, kind="stable")[:k]:
            (made,) = swiglu(token[None], w_gate[expert], w_up[expert], w_down[expert])
            out[t] += weights[expert] * made
    return out
