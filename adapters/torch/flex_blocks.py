"""FlexAttention of PyTorch over blocks of any two sizes.

Documentation: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
The layout is a `mask_mod`, of which `create_block_mask` makes the blocks again; the causal mask is aligned as in
`flex_attention`, at the last key.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .flex_attention import CONVENTIONS, DTYPES, hiding


def mask_of_blocks(
    q: Any, k: Any, blocks: Any, sizes: tuple[int, int], causal: bool, window: tuple[int | None, int | None]
) -> Any:
    """The mask of a layout of blocks of so many queries and keys, with the causal flag and a window."""
    from torch.nn.attention.flex_attention import and_masks, create_block_mask

    (batch, heads, q_len), k_len = q.shape[:3], k.shape[2]
    parts = [
        lambda b, h, i, j: blocks[b, h, i // sizes[0], j // sizes[1]],
        hiding(q_len, k_len, causal, None, *window),
    ]
    hides = and_masks(*(part for part in parts if part is not None))
    return create_block_mask(hides, batch, heads, q_len, k_len, device=str(q.device), BLOCK_SIZE=sizes)


@adapter("block_sparse_attention", dtypes=DTYPES, conventions=CONVENTIONS, compiled=True, slow=True, package="torch")
def torch_flex_blocks(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """torch.nn.attention.flex_attention with a mask of blocks of the sizes that are asked for, not compiled."""
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    mask = mask_of_blocks(q, k, blocks, (q_block_size, k_block_size), causal, (window_left, window_right))
    grouped = q.shape[1] != k.shape[1]
    out, aux = flex_attention(q, k, v, None, mask, scale, grouped, return_aux=AuxRequest(lse=True))
    return {"out": out, "lse": aux.lse}
