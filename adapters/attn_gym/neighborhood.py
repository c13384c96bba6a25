"""Neighborhood attention by a mask that Attention Gym makes for flex_attention.

Source: https://github.com/meta-pytorch/attention-gym (attn_gym/masks/natten.py)
Windows have a centre and follow one another without strides, gaps or a direction.
"""

from __future__ import annotations

import importlib
from typing import Any

from .. import adapter
from ..controls.neighborhood import fitting

APART = {"dilation_height": 1, "dilation_width": 1, "stride_height": 1, "stride_width": 1}


@adapter(
    "neighborhood_attention",
    fixed={**APART, "causal_height": False, "causal_width": False},
    requires="kernel_height % 2 == 1 and kernel_width % 2 == 1",
    dtypes=("float32",),
    package="attn_gym",
    extra="attn-gym",
)
def attn_gym_natten(
    q: Any, k: Any, v: Any, *, kernel_height: int, kernel_width: int, scale: float | None = None
) -> Any:
    """generate_natten of the map, whose pixels follow one another row by row."""
    from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

    gym: Any = importlib.import_module("attn_gym.masks")
    fitting(q, k, v)
    height, width, heads = q.shape[1:4]
    if kernel_height > height or kernel_width > width:
        raise ValueError("a window is inside of the map")
    mask = gym.generate_natten(width, height, kernel_width, kernel_height)
    blocks = create_block_mask(mask, None, None, height * width, height * width, device=str(q.device))
    arrays = [x.flatten(1, 2).transpose(1, 2) for x in (q, k, v)]
    grouped, lse = heads != k.shape[3], AuxRequest(lse=True)
    found: Any = flex_attention(*arrays, block_mask=blocks, scale=scale, enable_gqa=grouped, return_aux=lse)
    return tuple(x.transpose(1, 2).unflatten(1, (height, width)) for x in (found[0], found[1].lse))
