"""The masks that models of Hugging Face transformers make of packed rows, chunks and blocks.

Documentation: https://huggingface.co/docs/transformers/internal/modeling_utils (transformers.masking_utils).
Documents are found in the positions, chunks are those of Llama 4, and blocks are those of images in a text.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .cache import configuration


@adapter(
    "document_mask",
    dtypes=("float32",),
    requires=("window_left == none or chunk == none",),
    package="transformers",
    extra="transformers",
)
def transformers_document_masks(
    positions: Any, blocks: Any = None, *, window_left: int | None = None, chunk: int | None = None
) -> Any:
    """create_causal_mask, or its kin with a window or in chunks, for scaled_dot_product_attention."""
    from transformers import masking_utils

    config = configuration(None if window_left is None else window_left + 1)
    config.attention_chunk_size = chunk
    made: Any = masking_utils.create_causal_mask
    if chunk is not None:
        made = masking_utils.create_chunked_causal_mask
    elif window_left is not None:
        made = masking_utils.create_sliding_window_causal_mask
    mask = made(
        config,
        positions[..., None].float(),
        None,
        None,
        position_ids=positions,
        block_sequence_ids=blocks,
        allow_is_causal_skip=False,
    )
    return mask[:, 0].expand(len(positions), -1, -1)
