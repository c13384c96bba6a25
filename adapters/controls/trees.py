"""Right, but different: masks of speculated trees as servers make them, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter


def checked(parents: Any) -> None:
    """Refuse trees in which a parent does not come before its children."""
    import torch

    if bool((parents >= torch.arange(parents.shape[1])).any() or (parents < -1).any()):
        raise ValueError("a parent comes before its children")


@adapter("tree_mask", dtypes=("float32",))
def control_trees_by_rows(parents: Any, *, cached: int, window_left: int | None = None) -> Any:
    """The row of a node is that of its parent, with the node itself; positions are counted on the way."""
    import torch

    checked(parents)
    batch, nodes = parents.shape
    place = torch.arange(cached + nodes).repeat(batch, 1)
    mask = torch.zeros(batch, nodes, cached + nodes, dtype=torch.bool)
    for item in range(batch):
        for node, parent in enumerate(parents[item].tolist()):
            mask[item, node] = mask[item, parent] if parent >= 0 else torch.arange(cached + nodes) < cached
            mask[item, node, cached + node] = True
            place[item, cached + node] = place[item, cached + parent] + 1 if parent >= 0 else cached
    if window_left is None:
        return mask
    return mask & (place[:, cached:, None] - place[:, None] <= window_left)


@adapter("tree_mask", dtypes=("float32",))
def control_trees_by_steps(parents: Any, *, cached: int, window_left: int | None = None) -> Any:
    """All nodes climb towards their roots at once, a step at a time, and mark what they pass while the window lasts."""
    import torch

    checked(parents)
    batch, nodes = parents.shape
    mask = torch.zeros(batch, nodes, cached + nodes + 1, dtype=torch.bool)
    here, steps = torch.arange(nodes).repeat(batch, 1), torch.zeros(batch, nodes, dtype=torch.long)
    ends = torch.full_like(here, -1)
    for _ in range(nodes):
        near = (here >= 0) & (steps <= (nodes if window_left is None else window_left))
        mask.scatter_(2, torch.where(near, cached + here, cached + nodes)[..., None], True)
        steps = steps + (here >= 0)
        here = torch.where(here >= 0, parents.long().gather(1, here.clamp_min(0)), ends)
    left = cached if window_left is None else window_left + 1 - steps  # how many cached keys the window still holds
    first = cached - torch.as_tensor(left).expand(batch, nodes)
    mask[..., :cached] = torch.arange(cached) >= first[..., None]
    return mask[..., :-1]
