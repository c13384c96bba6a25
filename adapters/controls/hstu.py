"""Right, but different: pointwise attention of HSTU, in ways none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import DTYPES


def fitting(q: Any, k: Any, v: Any) -> None:
    """Refuse queries, keys and values that do not belong to each other."""
    if q.shape != k.shape or len(v) != len(k):
        raise ValueError("queries are as wide as keys, and every key has a value")


def visible(length: int, late: int, causal: bool, window_left: int | None, context: int) -> Any:
    """Which tokens of an item see which: [length, length]."""
    import torch

    place = torch.arange(length)
    number = (place.clamp(max=length - late) - max(context - 1, 0)).clamp(min=0)
    apart = number[:, None] - number
    seen = torch.eye(length, dtype=torch.bool) | ((apart > 0) if causal else (apart != 0))
    if window_left is not None:
        seen &= apart.abs() <= window_left
    return seen | ((place < context)[:, None] & (place < length - late))


@adapter("hstu_attention", dtypes=DTYPES)
def control_hstu_by_items(
    q: Any,
    k: Any,
    v: Any,
    lens: Any,
    targets: Any = None,
    *,
    alpha: float,
    max_len: int,
    causal: bool = True,
    window_left: int | None = None,
    context: int = 0,
) -> Any:
    """Item by item, in single precision, by torch's own function."""
    import torch

    fitting(q, k, v)
    outs = []
    for item, (one, keys, values) in enumerate(zip(*(x.float().split(lens.tolist()) for x in (q, k, v)), strict=True)):
        late = 0 if targets is None else int(targets[item])
        weights = torch.nn.functional.silu(torch.einsum("ihd,jhd->hij", one, keys) * alpha)
        weights = weights.masked_fill(~visible(len(one), late, causal, window_left, context), 0) / max_len
        outs.append(torch.einsum("hij,jhd->ihd", weights, values))
    return torch.cat(outs).to(v.dtype)


@adapter("hstu_attention", dtypes=DTYPES)
def control_hstu_by_tiles(
    q: Any,
    k: Any,
    v: Any,
    lens: Any,
    targets: Any = None,
    *,
    alpha: float,
    max_len: int,
    causal: bool = True,
    window_left: int | None = None,
    context: int = 0,
) -> Any:
    """Keys of all items in tiles of five, added up in double precision, with exponentials."""
    import torch

    fitting(q, k, v)
    items = range(len(lens))
    late = [0 if targets is None else int(targets[item]) for item in items]
    parts = [visible(int(lens[item]), late[item], causal, window_left, context) for item in items]
    seen = torch.block_diag(*parts).bool()[: len(q), : len(q)]
    out = torch.zeros(v.shape, dtype=torch.float64)
    for start in range(0, len(k), 5):
        tile = slice(start, start + 5)
        scores = torch.einsum("ihd,jhd->ijh", q.double() * alpha, k[tile].double())
        weights = torch.where(seen[:, tile, None], scores / (1 + (-scores).exp()), 0.0)
        out += torch.einsum("ijh,jhd->ihd", weights, v[tile].double())
    return (out / max_len).to(v.dtype)
