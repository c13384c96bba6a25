"""Right, but different: masks as models make them, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter


def queried(k_len: int, query_length: int | None, causal: bool, window: int | None, chunk: int | None) -> int:
    """How many queries there are; what has no mask is a `ValueError`."""
    queries = k_len if query_length is None else query_length
    if not 1 <= queries <= k_len or not (causal or window is chunk is None):
        raise ValueError("there are as many tokens as queries, or more, and windows and chunks look back")
    return queries


@adapter("attention_mask", dtypes=("float32",))
def control_mask_by_stretches(
    present: Any,
    *,
    query_length: int | None = None,
    causal: bool = True,
    window: int | None = None,
    chunk: int | None = None,
) -> Any:
    """Each query has a stretch of the tokens, from the later of where its window and its chunk begin."""
    import torch

    batch, k_len = present.shape
    queries = queried(k_len, query_length, causal, window, chunk)
    mask = torch.zeros(batch, queries, k_len, dtype=torch.bool)
    for query, own in enumerate(range(k_len - queries, k_len)):
        first = max(0 if window is None else own - window + 1, 0 if chunk is None else own - own % chunk)
        mask[:, query, first : own + 1 if causal else k_len] = True
    return mask & present[:, None]


@adapter("attention_mask", dtypes=("float32",))
def control_mask_that_unmasks_padding(
    present: Any,
    *,
    query_length: int | None = None,
    causal: bool = True,
    window: int | None = None,
    chunk: int | None = None,
) -> Any:
    """By triangles of the whole length, cut to the queries; the rows of padding see all, so that no row is empty."""
    import torch

    k_len = present.shape[1]
    queries = queried(k_len, query_length, causal, window, chunk)
    mask = torch.ones(k_len, k_len, dtype=torch.bool)
    if causal:
        mask = mask.tril()
    if window is not None:
        mask = mask.triu(1 - window)
    if chunk is not None:
        blocks = torch.block_diag(*[torch.ones(chunk, chunk)] * -(-k_len // chunk))[:k_len, :k_len]
        mask = mask & blocks.bool()
    return mask[-queries:] & present[:, None] | ~present[:, -queries:, None]
