"""Right, but different: tokens through experts as kernels take them, and that no law may accuse."""

from __future__ import annotations

import itertools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def checked(chosen: Any, weights: Any) -> None:
    if chosen.shape != weights.shape:
        raise ValueError("every choice has a weight")


def known(w_gate: Any, w_down: Any, b_gate: Any, b_up: Any, b_down: Any) -> tuple[Any, Any, Any]:
    """The biases, zeros where there are none: [experts, hidden] twice and [experts, dim]."""
    if b_down is None:
        return (w_gate.new_zeros(len(w_gate), w_gate.shape[2]),) * 2 + (w_down.new_zeros(len(w_down), w_down.shape[2]),)
    if len(b_down) != len(w_down):
        raise ValueError("every expert has a bias")
    return b_gate, b_up, b_down


def opened(gate: Any, up: Any, alpha: float, beta: float, limit: float | None) -> Any:
    """What gates let through, both cut at the limit."""
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return gate / (1 + (-alpha * gate).exp()) * (up + beta)


def placed(chosen: Any, expert_map: Any) -> Any:
    """Where the chosen experts are on this rank, -1 for none and for those of other ranks; without a map all are."""
    import torch

    return chosen if expert_map is None else torch.where(chosen < 0, -1, expert_map[chosen.clamp(min=0)])


@adapter("routed_experts", dtypes=DTYPES)
def control_experts_in_blocks(
    x: Any,
    chosen: Any,
    weights: Any,
    w_gate: Any,
    w_up: Any,
    w_down: Any,
    b_gate: Any = None,
    b_up: Any = None,
    b_down: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    limit: float | None = None,
    expert_map: Any = None,
) -> Any:
    """Pairs sorted by their experts, a block for each, brought back by the inverse order; others come first."""
    import torch

    checked(chosen, weights)
    biases = known(w_gate, w_down, b_gate, b_up, b_down)
    pairs = placed(chosen, expert_map).flatten() + 1
    order = pairs.argsort(stable=True)
    rows, made = x.float()[order // chosen.shape[1]], torch.zeros(len(order), x.shape[1])
    ends = torch.bincount(pairs, minlength=len(w_gate) + 1).cumsum(0).tolist()
    for expert, (start, end) in enumerate(itertools.pairwise(ends)):
        block = rows[start:end]
        own_gate, own_up, own_down = (b[expert].float() for b in biases)
        gate, up = block @ w_gate[expert].float() + own_gate, block @ w_up[expert].float() + own_up
        made[start:end] = (
            opened(gate, up, alpha, 0.0 if b_down is None else beta, limit) @ w_down[expert].float() + own_down
        )
    back = made[order.argsort()].unflatten(0, chosen.shape)
    share = torch.where(pairs.view(chosen.shape) > 0, weights.float(), 0)
    return (back * share[..., None]).sum(1).to(x.dtype)


@adapter("routed_experts", dtypes=DTYPES)
def control_experts_all(
    x: Any,
    chosen: Any,
    weights: Any,
    w_gate: Any,
    w_up: Any,
    w_down: Any,
    b_gate: Any = None,
    b_up: Any = None,
    b_down: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    limit: float | None = None,
    expert_map: Any = None,
) -> Any:
    """Every expert for every token in double precision, those that were not chosen masked out."""
    import torch

    checked(chosen, weights)
    beta = 0.0 if b_down is None else beta
    b_gate, b_up, b_down = (b.double()[:, None] for b in known(w_gate, w_down, b_gate, b_up, b_down))
    experts = torch.arange(len(w_gate))
    gate, up = (torch.einsum("td,edh->eth", x.double(), w.double()) for w in (w_gate, w_up))
    made = opened(gate + b_gate, up + b_up, alpha, beta, limit) @ w_down.double() + b_down  # [experts, tokens, dim]
    hits = placed(chosen, expert_map)[..., None] == experts
    share = torch.where(hits, weights.double()[..., None], 0.0).sum(1).T[..., None]
    sent = hits.any(1).T[..., None]
    return torch.where(sent, share * made, 0.0).sum(0).to(x.dtype)


@adapter("moe_layer", dtypes=DTYPES)
def control_moe_in_turn(
    x: Any,
    w_router: Any,
    w_gate: Any,
    w_up: Any,
    w_down: Any,
    *,
    k: int,
    scoring: str = "softmax",
    renormalise: bool = False,
    scaling: float = 1.0,
) -> Any:
    """Expert by expert, each for the tokens that chose it, added up in float32."""
    import torch

    experts = w_router.shape[1]
    if k > experts or len(w_router) != x.shape[1]:
        raise ValueError("the router does not fit")
    logits = (x @ w_router).float()
    scores = logits.softmax(-1) if scoring == "softmax" else logits.sigmoid()
    weights, chosen = scores.topk(k, -1)
    weights = scaling * (weights / weights.sum(-1, keepdim=True) if renormalise else weights)
    out = torch.zeros_like(x, dtype=torch.float32)
    for expert in range(experts):
        token, choice = (chosen == expert).nonzero(as_tuple=True)
        inner = torch.nn.functional.silu(x[token] @ w_gate[expert]) * (x[token] @ w_up[expert])
        out.index_add_(0, token, weights[token, choice, None] * (inner @ w_down[expert]).float())
    return out.to(x.dtype)


@adapter("moe_layer", dtypes=DTYPES)
def control_moe_dense(
    x: Any,
    w_router: Any,
    w_gate: Any,
    w_up: Any,
    w_down: Any,
    *,
    k: int,
    scoring: str = "softmax",
    renormalise: bool = False,
    scaling: float = 1.0,
) -> Any:
    """All experts for all tokens in float64, of which those that were not chosen are left out."""
    import torch

    if k > w_router.shape[1] or len(w_router) != x.shape[1]:
        raise ValueError("the router does not fit")
    own = x.double()
    logits = own @ w_router.double()
    chosen = torch.zeros_like(logits, dtype=torch.bool).scatter(1, logits.argsort(1, descending=True)[:, :k], True)
    scores = logits.softmax(-1) if scoring == "softmax" else logits.sigmoid()
    weights = scores.where(chosen, torch.zeros(()).double())
    weights = scaling * (weights / weights.sum(1, keepdim=True) if renormalise else weights)
    inner = torch.nn.functional.silu(own @ w_gate.double()) * (own @ w_up.double())
    made = (inner @ w_down.double()).transpose(0, 1).where(chosen[..., None], torch.zeros(()).double())
    return (weights[..., None] * made).sum(1).to(x.dtype)
