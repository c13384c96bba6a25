"""Right, but different: experts as kernels choose them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


@adapter("moe_routing", dtypes=DTYPES, conventions={"group_score": "top_two"})
def control_routing_one_by_one(
    logits: Any,
    bias: Any = None,
    *,
    k: int,
    scoring: str = "softmax",
    groups: int = 1,
    kept_groups: int = 1,
    renormalise: bool = False,
    scaling: float = 1.0,
) -> Any:
    """Expert by expert, each the best of those that are left; of equal ones the last."""
    import torch

    experts = logits.shape[1]
    if k > experts:
        raise ValueError("more experts are asked for than there are")
    scores = logits.float().softmax(-1) if scoring == "softmax" else logits.float().sigmoid()
    left = (scores if bias is None else scores + bias).flip(1)
    if groups > 1:
        members = left.unflatten(1, (groups, -1))
        value = members.sort(2).values[..., -2:].sum(2)
        bar = value.sort(1).values[:, -kept_groups, None]
        left = torch.where(value >= bar, 0.0, -torch.inf).repeat_interleave(experts // groups, 1) + left
    chosen = torch.zeros_like(scores)
    for _ in range(k):
        best = left.argmax(1, keepdim=True)
        chosen.scatter_(1, best, 1.0)
        left = left.scatter(1, best, -torch.inf)
    weights = scores * chosen.flip(1)
    return scaling * (weights / weights.sum(1, keepdim=True) if renormalise else weights)


@adapter("moe_routing", dtypes=DTYPES, conventions={"group_score": "greatest"})
def control_routing_by_logarithms(
    logits: Any,
    bias: Any = None,
    *,
    k: int,
    scoring: str = "softmax",
    groups: int = 1,
    kept_groups: int = 1,
    renormalise: bool = False,
    scaling: float = 1.0,
) -> Any:
    """Scores as exponentials of their logarithms, in double precision; groups by their greatest score."""
    import torch

    experts = logits.shape[1]
    if k > experts:
        raise ValueError("more experts are asked for than there are")
    x = logits.double()
    log = x.log_softmax(-1) if scoring == "softmax" else torch.nn.functional.logsigmoid(x)
    wanted = log.exp() + (0 if bias is None else bias.double())
    best = wanted.unflatten(1, (groups, -1)).amax(2).topk(kept_groups, 1).indices
    open_ = torch.zeros(len(x), groups).scatter(1, best, 1.0).repeat_interleave(experts // groups, 1) > 0
    chosen = wanted.masked_fill(~open_, -torch.inf).topk(k, 1).indices
    picked = log.gather(1, chosen)
    shares = scaling * (picked.softmax(1) if renormalise else picked.exp())
    return torch.zeros_like(x).scatter(1, chosen, shares).float()


@adapter("moe_routing", dtypes=DTYPES, conventions={"group_score": "two_with_bias"})
def control_routing_by_ranks(
    logits: Any,
    bias: Any = None,
    *,
    k: int,
    scoring: str = "softmax",
    groups: int = 1,
    kept_groups: int = 1,
    renormalise: bool = False,
    scaling: float = 1.0,
) -> Any:
    """Groups and experts by how many are better, without sorting; groups by two scores where there is a bias."""
    import torch

    experts = logits.shape[1]
    if k > experts:
        raise ValueError("more experts are asked for than there are")
    scores = logits.float().softmax(-1) if scoring == "softmax" else logits.float().sigmoid()
    wanted = scores if bias is None else scores + bias

    def best(x: Any, count: int) -> Any:
        """True for so many of the largest along the last axis; of equal ones for the first."""
        above = (x[..., None, :] > x[..., :, None]).sum(-1)
        alike = (x[..., None, :] == x[..., :, None]).tril(-1).sum(-1)
        return above + alike < count

    if groups > 1:
        members = wanted.unflatten(1, (groups, -1))
        count = 1 if bias is None else 2
        value = torch.where(best(members, count), members, 0.0).sum(2)
        open_ = best(value, kept_groups).repeat_interleave(experts // groups, 1)
        wanted = torch.where(open_, wanted, -torch.inf)
    weights = torch.where(best(wanted, k), scores, 0.0)
    return scaling * (weights / weights.sum(1, keepdim=True) if renormalise else weights)
