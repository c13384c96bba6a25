"""Right, but different: experts with a capacity, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def chosen_of(logits: Any, bias: Any, k: int, scoring: str, capacity: int | None) -> tuple[Any, Any]:
    """The scores [tokens, experts] and the experts of each token, best first [tokens, k]."""
    if k > logits.shape[1] or (capacity is not None and capacity < 1):
        raise ValueError("there are as many experts as are chosen, and each has a place")
    scores = logits.double().softmax(-1) if scoring == "softmax" else logits.double().sigmoid()
    return scores, (scores if bias is None else scores + bias).topk(k, 1).indices


@adapter(
    "moe_routing",
    dtypes=DTYPES,
    fixed={"groups": 1, "kept_groups": 1},
    conventions={"drop_order": "by_choice", "renormalised_over": "all_kept"},
)
def control_capacity_by_counters(
    logits: Any,
    bias: Any = None,
    *,
    k: int,
    scoring: str = "softmax",
    renormalise: bool = False,
    scaling: float = 1.0,
    capacity: int | None = None,
) -> Any:
    """Experts count places down, choice by choice and token by token."""
    import torch

    scores, chosen = chosen_of(logits, bias, k, scoring, capacity)
    places = [len(logits) if capacity is None else capacity] * logits.shape[1]
    weights = torch.zeros_like(scores)
    for choice in chosen.T.tolist():
        for token, expert in enumerate(choice):
            places[expert] -= 1
            if places[expert] >= 0:
                weights[token, expert] = scores[token, expert]
    if renormalise:
        weights /= weights.sum(1, keepdim=True).clamp(min=1e-30)
    return (scaling * weights).float()


@adapter(
    "moe_routing",
    dtypes=DTYPES,
    fixed={"groups": 1, "kept_groups": 1},
    conventions={"drop_order": "by_weight", "renormalised_over": "all_chosen"},
)
def control_capacity_by_columns(
    logits: Any,
    bias: Any = None,
    *,
    k: int,
    scoring: str = "softmax",
    renormalise: bool = False,
    scaling: float = 1.0,
    capacity: int | None = None,
) -> Any:
    """The weights of each expert are sorted, and those beyond its capacity set to zero."""
    import torch

    scores, chosen = chosen_of(logits, bias, k, scoring, capacity)
    picked = scores.gather(1, chosen)
    shares = picked / picked.sum(1, keepdim=True) if renormalise else picked
    weights = torch.zeros_like(scores).scatter(1, chosen, scaling * shares)
    order = weights.argsort(dim=0, descending=True, stable=True)
    late = torch.arange(len(weights))[:, None] >= (len(weights) if capacity is None else capacity)
    return weights.masked_fill(
        torch.zeros_like(late & (order >= 0)).scatter(0, order, late.expand_as(order)), 0
    ).float()


@adapter(
    "moe_routing",
    dtypes=DTYPES,
    fixed={"groups": 1, "kept_groups": 1},
    conventions={"drop_order": "by_position", "renormalised_over": "all_chosen"},
)
def control_capacity_by_sums(
    logits: Any,
    bias: Any = None,
    *,
    k: int,
    scoring: str = "softmax",
    renormalise: bool = False,
    scaling: float = 1.0,
    capacity: int | None = None,
) -> Any:
    """Tokens of an expert are numbered by a running sum."""
    import torch

    scores, chosen = chosen_of(logits, bias, k, scoring, capacity)
    taken = torch.zeros_like(scores).scatter(1, chosen, 1.0)
    kept = taken * (taken.cumsum(0) <= (len(taken) if capacity is None else capacity))
    over = (scores * taken).sum(1, keepdim=True) if renormalise else 1.0
    return (scaling * kept * scores / over).float()
