"""A mixture-of-experts layer: Shazeer et al. 2017, arXiv:1701.06538, equation 1; Jiang et al. 2024, 2401.04088."""

from __future__ import annotations

import numpy as np

from .moe_routing import moe_routing
from .routed_experts import routed_experts


def moe_layer(x, w_router, w_gate, w_up, w_down, *, k, scoring="softmax", renormalise=False, scaling=1.0):
    """What the k best experts of each token make of it, weighed by the router and added up: [tokens, dim].

    x [tokens, dim], w_router [dim, experts], w_gate and w_up [experts, dim, hidden], w_down [experts, hidden, dim].
    """
    logits = x @ w_router
    weights = moe_routing(logits, k=k, scoring=scoring, renormalise=renormalise, scaling=scaling)
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    return routed_experts(x, chosen, np.take_along_axis(weights, chosen, 1), w_gate, w_up, w_down)
