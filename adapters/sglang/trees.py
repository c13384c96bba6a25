"""The mask of a speculated tree that SGLang builds, in Triton.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops/speculative/spec_tree.py)
A drafted token is named by its place among the candidates of its parent; the tree's root is the last token that was
verified, and so the last one of the cache here. The caller has the mask filled with ones, and the kernel writes the
columns of the tree.
"""

from __future__ import annotations

from typing import Any

from ..triton.interpreter import declared
from .modules import SPECULATIVE, module


@declared("tree_mask", dtypes=("float32",), package="sglang", fixed={"window_left": None}, requires="cached > 0")
def sglang_tree_mask(parents: Any, *, cached: int) -> Any:
    """sgl_build_tree_kernel_triton with the mode FULL_MASK."""
    import torch

    trees = module("spec_tree", SPECULATIVE)
    (batch, nodes), there = parents.shape, parents.device
    order = torch.arange(nodes, device=there)
    if bool((parents >= order).any()):
        raise ValueError("a parent comes before its children")
    count, before = nodes + 1, cached - 1
    chosen = (parents + 1) * nodes + order
    candidates = torch.cat((torch.full_like(chosen[:, :1], -1), chosen), 1)
    lens = torch.full((batch,), before, device=there)
    mask = torch.ones(batch * count * (before + count), dtype=torch.bool, device=there)
    links = torch.full((4, batch, count), -1, device=there)
    trees.sgl_build_tree_kernel_triton(
        candidates, chosen.contiguous(), lens, mask, *links, nodes, count, count, trees.TreeMaskMode.FULL_MASK
    )
    return mask.view(batch, count, before + count)[:, 1:]
