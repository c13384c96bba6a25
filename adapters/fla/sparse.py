"""DeepSeek's sparse attention of flash-linear-attention, in torch alone: the indexer, and attention to what it chooses.

Source: https://github.com/fla-org/flash-linear-attention/blob/main/fla/ops/dsa/naive.py
Queries are as many as keys, and causal; one list of numbers is for all heads. Arithmetic is in float32.
A number behind the last key raises an error.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .naive import naive

DECLARED: dict[str, Any] = {"dtypes": ("float32", "bfloat16", "float16"), "package": "fla", "extra": "fla"}


@adapter(
    "gathered_attention",
    layout="bshd",
    fixed={"block_size": 1, "causal": True},
    requires=("q_len == k_len", "lists == 1", "all(selected < k_len)"),
    conventions={"grouping": "block"},
    **DECLARED,
)
def fla_naive_dsa(
    q: Any, k: Any, v: Any, selected: Any, *, block_size: int = 1, causal: bool = True, scale: float | None = None
) -> Any:
    """naive_dsa with numbers of keys that are given."""
    if q.shape[:2] != k.shape[:2] or selected.shape[:2] != q.shape[:2] or selected.shape[2] != 1:
        raise ValueError("every query has one list, and one key")
    return naive("dsa").naive_dsa(q, k, v, None, None, indices=selected[:, :, 0], scale=scale)


@adapter("lightning_indexer", fixed={"causal": True}, requires="q_len == k_len", **DECLARED)
def fla_naive_dsa_indexer(q: Any, k: Any, w: Any, *, top_k: int, causal: bool = True) -> Any:
    """naive_dsa_indexer with its products below zero left out."""
    import torch

    if q.shape[:2] != k.shape[:2]:
        raise ValueError("every query has one key")
    found = naive("dsa").naive_dsa_indexer(q, k, w, top_k, scale=1.0, activation="relu")
    length = k.shape[1]
    places = torch.where(found < 0, length, found)
    chosen = torch.zeros(*q.shape[:2], length + 1, dtype=torch.bool, device=q.device)
    return chosen.scatter(2, places, True)[..., :length]
