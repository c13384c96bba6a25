"""Right, but different: the choice of keys by a lightning indexer, with ties taken in several ways."""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def scored(q: Any, k: Any, w: Any, causal: bool) -> tuple[Any, Any]:
    """The index scores in the precision of the inputs, and which keys a query may see: [batch, q_len, k_len]."""
    import torch

    if k.shape[2] != q.shape[3]:
        raise ValueError("queries and keys have one head size")
    scores = (torch.einsum("bihd,bsd->bihs", q, k).relu() * w[..., None]).sum(2)
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    return scores, (seen.tril(k.shape[1] - q.shape[1]) if causal else seen).expand(scores.shape)


@adapter("lightning_indexer", dtypes=DTYPES)
def control_indexer_sorted(q: Any, k: Any, w: Any, *, top_k: int = 3, causal: bool = True) -> Any:
    """In double precision, by a stable sort from the last key on."""
    scores, seen = scored(q.double(), k.double(), w.double(), causal)
    ranks = scores.masked_fill(~seen, float("-inf")).flip(2).argsort(dim=2, descending=True, stable=True).argsort(2)
    return (ranks.flip(2) < top_k) & seen


@adapter("lightning_indexer", dtypes=DTYPES)
def control_indexer_by_threshold(q: Any, k: Any, w: Any, *, top_k: int = 3, causal: bool = True) -> Any:
    """In float32, by the score of the last place, and as many of equal ones as there is room for, head by head."""
    one_by_one = (
        scored(x, k.float(), y, causal) for x, y in zip(q.float().split(1, 2), w.float().split(1, 2), strict=True)
    )
    scores, seen = functools.reduce(lambda a, b: (a[0] + b[0], a[1]), one_by_one)
    scores = scores.masked_fill(~seen, float("-inf"))
    least = scores.topk(min(top_k, k.shape[1]), 2).values[..., -1:]
    above, equal = scores > least, scores == least
    return (above | equal & (equal.cumsum(2) <= top_k - above.sum(2, keepdim=True))) & seen


@adapter("lightning_indexer", dtypes=DTYPES)
def control_indexer_in_blocks(q: Any, k: Any, w: Any, *, top_k: int = 3, causal: bool = True) -> Any:
    """In float32, the best of blocks of 16 keys and then of these, hidden keys among them where there is room."""
    import torch

    scores, seen = scored(q.float(), k.float(), w.float(), causal)
    scores = scores.masked_fill(~seen, float("-inf"))
    places = []
    for start in range(0, k.shape[1], 16):
        block = scores[..., start : start + 16]
        places.append(block.topk(min(top_k, block.shape[2]), 2, sorted=False).indices + start)
    candidates = torch.cat(places, 2)
    best = scores.gather(2, candidates).topk(min(top_k, k.shape[1]), 2).indices
    return torch.zeros_like(seen.clone()).scatter(2, candidates.gather(2, best), True)


FORMATS = {"kv_dtype": ("e4m3fn", "int8"), "q_dtype": ("q_as_given", "q_e4m3fn", "q_int8")}


@adapter("lightning_indexer", dtypes=DTYPES, limits=FORMATS)
def control_indexer_of_codes(q: Any, k: Any, w: Any, *, k_scale: Any, top_k: int = 3, causal: bool = True) -> Any:
    """Codes times scales in double precision, by a full sort."""
    scores, seen = scored(q.double(), k.double() * k_scale.double()[..., None], w.double(), causal)
    ranks = scores.masked_fill(~seen, float("-inf")).argsort(dim=2, descending=True).argsort(2)
    return (ranks < top_k) & seen


@adapter("lightning_indexer", dtypes=DTYPES, limits=FORMATS)
def control_index_scores_scaled(q: Any, k: Any, w: Any, *, k_scale: Any, top_k: int = 3, causal: bool = True) -> Any:
    """Products of codes, with the scales of the keys in the sum over the heads, by the score of the last place."""
    scores, seen = scored(q.float(), k.float(), w.float(), causal)
    scores = (scores * k_scale[:, None]).masked_fill(~seen, float("-inf"))
    places = scores.topk(min(top_k, k.shape[1]), 2).indices
    return (seen & False).scatter(2, places, True) & seen
