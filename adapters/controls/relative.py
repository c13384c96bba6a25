"""Right, but different: attention with relative positions, in ways none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import DTYPES


def fitting(q: Any, k: Any, v: Any, r: Any) -> None:
    """Refuse arrays that do not belong to each other."""
    length, keys = q.shape[2], k.shape[2]
    if k.shape[3] != q.shape[3] or v.shape[2] != keys or r.shape[1] != length + keys - 1 or keys < length:
        raise ValueError("a value for each key, queries as wide as keys, and a vector for each distance")


def hidden(length: int, keys: int) -> Any:
    """What is behind each query: booleans [length, keys]."""
    import torch

    return torch.ones(length, keys, dtype=torch.bool).triu(keys - length + 1)


def shifted(products: Any, keys: int) -> Any:
    """Products with distances, of the keys of each query: padded, reshaped and cut as Transformer-XL does."""
    import torch

    batch, heads, length, distances = products.shape
    padded = torch.nn.functional.pad(products, (1, 0)).reshape(batch, heads, distances + 1, length)
    return padded[:, :, 1:].reshape(products.shape)[..., :keys]


@adapter("relative_attention", dtypes=DTYPES)
def control_relative_by_shift(
    q: Any,
    k: Any,
    v: Any,
    r: Any,
    content_bias: Any,
    position_bias: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """The shift of the paper, in single precision."""
    import torch

    fitting(q, k, v, r)
    wide = q.float()
    content = (wide + content_bias.float()[:, None]) @ k.float().mT
    position = shifted((wide + position_bias.float()[:, None]) @ r.float().mT, k.shape[2])
    scores = (content + position) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(hidden(*scores.shape[2:]), -torch.inf)
    return {"out": (scores.softmax(-1) @ v.float()).to(q.dtype), "lse": scores.logsumexp(-1)}


@adapter("relative_attention", dtypes=DTYPES)
def control_relative_by_queries(
    q: Any,
    k: Any,
    v: Any,
    r: Any,
    content_bias: Any,
    position_bias: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Query by query, with the rows of its distances beside the keys, in double precision."""
    import torch

    fitting(q, k, v, r)
    length, keys = q.shape[2], k.shape[2]
    factor = q.shape[3] ** -0.5 if scale is None else scale
    wide, both = q.double() * factor, torch.stack((content_bias, position_bias)).double() * factor
    out, lse = [], []
    for i in range(length):
        last = keys - length + i + 1 if causal else keys
        rows = torch.cat((k[:, :, :last], r[:, length - 1 - i :][:, :last].expand(len(k), -1, -1, -1)), -1).double()
        query = torch.cat([wide[:, :, i] + bias for bias in both], -1)
        scores = (rows @ query[..., None])[..., 0]
        lse.append(scores.logsumexp(-1))
        out.append(((scores - lse[-1][..., None]).exp()[..., None, :] @ v[:, :, :last].double())[:, :, 0])
    return {"out": torch.stack(out, 2).to(q.dtype), "lse": torch.stack(lse, 2).float()}
