"""Tokens that Megatron Core sorts by their experts and brings back.

Source: https://github.com/NVIDIA/Megatron-LM (megatron/core/transformer/moe/moe_utils.py), without Transformer Engine.
Which experts a token is sent to is a map of booleans, and their weights are in an array of the same shape. Rows are as
many as were sent, and the numbers of rows are a sum of the map that no function of its own computes.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "megatron.core",
    "extra": "megatron",
}


def mapped(chosen: Any, experts: int, weights: Any = None) -> tuple[Any, Any]:
    """The map of the experts of each token, and their weights: both [tokens, experts]."""
    import torch

    sent = chosen >= 0
    token = torch.arange(len(chosen))[:, None].expand_as(chosen)[sent]
    routing = torch.zeros(len(chosen), experts, dtype=torch.bool)
    routing[token, chosen[sent]] = True
    if weights is None:
        return routing, None
    probs = torch.zeros(routing.shape, dtype=weights.dtype)
    probs[token, chosen[sent]] = weights[sent]
    return routing, probs


@adapter("token_permutation", **DECLARED)
def megatron_permute(x: Any, chosen: Any, *, experts: int) -> Any:
    """The function permute, of a routing map."""
    import torch
    from megatron.core.transformer.moe.moe_utils import permute

    if len(chosen) != len(x):
        raise ValueError("every token has its choices")
    rows, _, sources = permute(x, mapped(chosen, experts)[0])
    missing = chosen.numel() - len(rows)
    pad = torch.nn.functional.pad
    return {"rows": pad(rows, (0, 0, 0, missing)), "sources": pad(sources, (0, missing))}


@adapter("token_unpermutation", grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"}, **DECLARED)
def megatron_unpermute(rows: Any, chosen: Any, weights: Any = None) -> Any:
    """The function unpermute, by the tokens of the rows, with weights in the dtype of the rows."""
    from megatron.core.transformer.moe.moe_utils import permute, unpermute

    if len(rows) != chosen.numel() or (weights is not None and weights.shape != chosen.shape):
        raise ValueError("every choice has a row and a weight")
    shape = chosen.shape[0], rows.shape[1]
    experts = max(chosen.flatten().tolist(), default=0) + 1
    routing, probs = mapped(chosen, experts, weights)
    sources = permute(rows.new_empty(shape), routing)[2]
    return unpermute(rows[: len(sources)], sources, shape, probs=probs, routing_map=routing)


def routed(
    logits: Any, k: int, scoring: str, renormalise: bool, scaling: float, capacity: int | None, policy: str
) -> Any:
    """The weights of topk_routing_with_score_function that apply_router_token_dropping leaves.

    A capacity is given as a factor of the mean number of choices, and rounded up from half a place below.
    """
    from megatron.core.transformer.moe import moe_utils

    probs, routing = moe_utils.topk_routing_with_score_function(
        logits, k, use_pre_softmax=not renormalise, scaling_factor=scaling, score_function=scoring
    )
    if capacity is None:
        return probs
    if capacity < 1:
        raise ValueError("an expert takes one token at least")
    factor = (capacity - 0.5) * logits.shape[1] / (len(logits) * k)
    return moe_utils.apply_router_token_dropping(probs, routing, k, factor, drop_policy=policy)[0]


ROUTING: dict[str, Any] = {
    "fixed": {"groups": 1, "kept_groups": 1},
    "requires": "scoring == softmax_scores or renormalise == (k > 1)",
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    **DECLARED,
}


@adapter("moe_routing", conventions={"drop_order": "by_weight", "renormalised_over": "all_chosen"}, **ROUTING)
def megatron_router(
    logits: Any,
    *,
    k: int,
    scoring: str = "softmax",
    renormalise: bool = False,
    scaling: float = 1.0,
    capacity: int | None = None,
) -> Any:
    """topk_routing_with_score_function, and apply_router_token_dropping with the policy "probs"."""
    return routed(logits, k, scoring, renormalise, scaling, capacity, "probs")


@adapter("moe_routing", conventions={"drop_order": "by_position", "renormalised_over": "all_chosen"}, **ROUTING)
def megatron_router_by_position(
    logits: Any,
    *,
    k: int,
    scoring: str = "softmax",
    renormalise: bool = False,
    scaling: float = 1.0,
    capacity: int | None = None,
) -> Any:
    """topk_routing_with_score_function, and apply_router_token_dropping with the policy "position"."""
    return routed(logits, k, scoring, renormalise, scaling, capacity, "position")
