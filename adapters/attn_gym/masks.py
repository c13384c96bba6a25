"""Masks of documents and of trees that Attention Gym makes for flex_attention.

Source: https://github.com/meta-pytorch/attention-gym (attn_gym/masks)
A mask is a function of a query and a key, of which torch makes an array. Documents are given by where they begin, and
their positions start at zero. A tree has one root, which is the last token of the cache.
"""

from __future__ import annotations

import importlib
from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {"dtypes": ("float32",), "package": "attn_gym", "extra": "attn-gym"}


def array(mask: Any, q_len: int, k_len: int) -> Any:
    """The array of a mask function: [q_len, k_len]."""
    from torch.nn.attention.flex_attention import create_mask

    return create_mask(mask, None, None, q_len, k_len, device="cpu")[0, 0]


@adapter(
    "document_mask",
    fixed={"chunk": None},
    requires=(
        "single(blocks)",
        "all(positions[:, 0] == 0) and all(positions[:, 1:] == 0 or positions[:, 1:] == positions[:, :-1] + 1)",
    ),
    **DECLARED,
)
def attn_gym_document_mask(positions: Any, *, window_left: int | None = None) -> Any:
    """generate_doc_mask_mod of a causal mask, or of a sliding window."""
    import torch

    gym: Any = importlib.import_module("attn_gym.masks")
    inner = gym.causal_mask if window_left is None else gym.generate_sliding_window(window_left)
    length = positions.shape[1]
    masks = []
    for item in positions:
        offsets = torch.cat((torch.nonzero(item == 0)[:, 0], torch.tensor([length])))
        masks.append(array(gym.generate_doc_mask_mod(inner, offsets), length, length))
    return torch.stack(masks)


@adapter("tree_mask", fixed={"window_left": None}, requires="cached > 0", **DECLARED)
def attn_gym_tree_mask(parents: Any, *, cached: int) -> Any:
    """generate_jetspec_tree_causal_mask_mod of a tree whose root is the last cached key."""
    import torch

    gym: Any = importlib.import_module("attn_gym.masks")
    masks = []
    for item in parents:
        ancestors = gym.build_tree_ancestor_matrix([-1, *(item + 1).tolist()], device="cpu")
        mask = gym.generate_jetspec_tree_causal_mask_mod(cached - 1, ancestors)
        masks.append(array(mask, len(item) + 1, cached + len(item))[1:])
    return torch.stack(masks)
