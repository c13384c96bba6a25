"""The choice of blocks before sparse attention: Yuan et al. 2025, arXiv:2502.11089, equation 11, query by query."""

import numpy as np


def block_selection(importance, *, count, block_size=2, first_blocks=1, local_blocks=2, offset=0):
    """Which blocks are chosen: booleans [batch, kv_heads, q_len, blocks], the earlier of equal importance.

    importance [batch, kv_heads, q_len, blocks]; query t has the position offset + t.
    """
    batch, kv_heads, q_len, blocks = importance.shape
    if blocks * block_size < offset + q_len:
        raise ValueError(f"{blocks} blocks of {block_size} keys for {offset + q_len} positions")
    chosen = np.zeros(importance.shape, bool)
    for b, g, t in np.ndindex(batch, kv_heads, q_len):
        own = (offset + t) // block_size
        always = {*range(min(first_blocks, own + 1)), *range(max(own + 1 - local_blocks, 0), own + 1)}
        rest = sorted({*range(own + 1)} - always, key=lambda j: (-importance[b, g, t, j], j))
        chosen[b, g, t, [*always, *rest[: max(count - len(always), 0)]]] = True
    return chosen
