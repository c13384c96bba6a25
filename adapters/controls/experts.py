"""Right, but different: tokens through experts as kernels take them, and that no law may accuse."""

from __future__ import annotations

import itertools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def checked(chosen: Any, weights: Any) -> None:
    if chosen.shape != weights.shape:
        raise ValueError("every choice has a weight")


def placed(chosen: Any, expert_map: Any) -> Any:
    """Where the chosen experts are on this rank, -1 for none and for those of other ranks; without a map all are."""
    import torch

    return chosen if expert_map is None else torch.where(chosen < 0, -1, expert_map[chosen.clamp(min=0)])


@adapter("routed_experts", dtypes=DTYPES)
def control_experts_in_blocks(
    x: Any, chosen: Any, weights: Any, w_gate: Any, w_up: Any, w_down: Any, *, expert_map: Any = None
) -> Any:
    """Pairs sorted by their experts, a block for each, brought back by the inverse order; others come first."""
    import torch

    checked(chosen, weights)
    pairs = placed(chosen, expert_map).flatten() + 1
    order = pairs.argsort(stable=True)
    rows, made = x.float()[order // chosen.shape[1]], torch.zeros(len(order), x.shape[1])
    ends = torch.bincount(pairs, minlength=len(w_gate) + 1).cumsum(0).tolist()
    for expert, (start, end) in enumerate(itertools.pairwise(ends)):
        block = rows[start:end]
        inner = torch.nn.functional.silu(block @ w_gate[expert].float()) * (block @ w_up[expert].float())
        made[start:end] = inner @ w_down[expert].float()
    back = made[order.argsort()].unflatten(0, chosen.shape)
    share = torch.where(pairs.view(chosen.shape) > 0, weights.float(), 0)
    return (back * share[..., None]).sum(1).to(x.dtype)


@adapter("routed_experts", dtypes=DTYPES)
def control_experts_all(
    x: Any, chosen: Any, weights: Any, w_gate: Any, w_up: Any, w_down: Any, *, expert_map: Any = None
) -> Any:
    """Every expert for every token in double precision, those that were not chosen masked out."""
    import torch

    checked(chosen, weights)
    experts = torch.arange(len(w_gate))
    gate, up = (torch.einsum("td,edh->eth", x.double(), w.double()) for w in (w_gate, w_up))
    made = torch.nn.functional.silu(gate) * up @ w_down.double()  # [experts, tokens, dim]
    hits = placed(chosen, expert_map)[..., None] == experts
    share = torch.where(hits, weights.double()[..., None], 0.0).sum(1).T[..., None]
    sent = hits.any(1).T[..., None]
    return torch.where(sent, share * made, 0.0).sum(0).to(x.dtype)
