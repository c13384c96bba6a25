"""What tokens of packed documents see, one pair at a time.

Prefixes: Raffel et al. 2020, arXiv:1910.10683, section 3.2.1. Packed rows: Krell et al. 2021, arXiv:2107.02027.
Chunks: Meta 2025, Llama 4.
"""

import numpy as np


def document_mask(positions, blocks=None, *, window_left=None, chunk=None):
    """The mask [batch, length, length] of rows of documents, from positions and blocks [batch, length].

    A document begins where a position is not one more than that before it; -1 is no block.
    """
    batch, length = positions.shape
    named = np.asarray(-1 if blocks is None else blocks)
    named = np.full(positions.shape, named) if named.ndim == 0 else named
    if named.shape != positions.shape:
        raise ValueError("every token has a position and a block")
    mask = np.zeros((batch, length, length), bool)
    for b in range(batch):
        p, beginnings = positions[b], [t for t in range(1, length) if positions[b, t] != positions[b, t - 1] + 1]
        for own in np.split(np.arange(length), beginnings):
            for i in own:
                for j in own:
                    near = window_left is None or p[i] - p[j] <= window_left
                    near = near and (chunk is None or p[i] // chunk == p[j] // chunk)
                    mask[b, i, j] = (j <= i and near) or named[b, i] == named[b, j] >= 0
    return mask
