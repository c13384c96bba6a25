"""Right, but different: masks of packed documents, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter("document_mask", dtypes=("float32",))
def control_documents_row_by_row(
    positions: Any, blocks: Any = None, *, window_left: int | None = None, chunk: int | None = None
) -> Any:
    """Each token has a stretch of the row, from the latest of where its document, window and chunk begin."""
    import torch

    batch, length = positions.shape
    mask = torch.zeros(batch, length, length, dtype=torch.bool)
    for item in range(batch):
        start, place = 0, positions[item].tolist()
        for token, position in enumerate(place):
            if token and position != place[token - 1] + 1:
                start = token
            back = token - start
            back = back if window_left is None else min(back, window_left)
            back = back if chunk is None else min(back, position % chunk)
            mask[item, token, token - back : token + 1] = True
    if blocks is not None:
        mask |= (blocks[:, None] == blocks[..., None]) & (blocks >= 0)[:, None]
    return mask


@adapter("document_mask", dtypes=("float32",))
def control_documents_by_origin(
    positions: Any, blocks: Any = None, *, window_left: int | None = None, chunk: int | None = None
) -> Any:
    """Documents are told by where their position zero would lie in the row, and by how often that has changed."""
    import torch

    place = torch.arange(positions.shape[1])
    origin = place - positions
    changes = torch.nn.functional.pad((origin.diff(dim=1) != 0).long().cumsum(1), (1, 0))
    back = place[:, None] - place
    mask = (changes[..., None] == changes[:, None]) & (back >= 0)
    if window_left is not None:
        mask &= back <= window_left
    if chunk is not None:
        first = positions - positions.remainder(chunk)
        mask &= first[..., None] == first[:, None]
    if blocks is None:
        return mask
    named = torch.where(blocks < 0, -1 - place, blocks)  # a token of no block is one by itself
    return mask | (named[..., None] == named[:, None])
