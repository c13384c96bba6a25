"""Right, but different: pointwise attention of HSTU, in ways none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
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


@adapter("hstu_attention_gradient", dtypes=DTYPES)
def control_hstu_backward(
    q: Any,
    k: Any,
    v: Any,
    lens: Any,
    d_out: Any,
    targets: Any = None,
    *,
    alpha: float,
    max_len: int,
    causal: bool = True,
    window_left: int | None = None,
    context: int = 0,
) -> dict[str, Any]:
    """What autograd makes of the items in single precision."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        options = {"causal": causal, "window_left": window_left, "context": context}
        return control_hstu_by_items(q, k, v, lens, targets, alpha=alpha, max_len=max_len, **options)

    return differentiated(attend, d_out, q=q, k=k, v=v)


@adapter("hstu_attention_gradient", dtypes=DTYPES)
def control_hstu_gradient_by_queries(
    q: Any,
    k: Any,
    v: Any,
    lens: Any,
    d_out: Any,
    targets: Any = None,
    *,
    alpha: float,
    max_len: int,
    causal: bool = True,
    window_left: int | None = None,
    context: int = 0,
) -> dict[str, Any]:
    """Query by query in double precision, whose parts are added to the keys and values that it sees."""
    import torch

    fitting(q, k, v)
    found = {name: torch.zeros(x.shape, dtype=torch.float64) for name, x in (("d_q", q), ("d_k", k), ("d_v", v))}
    start = 0
    for item, length in enumerate(lens.tolist()):
        late = 0 if targets is None else int(targets[item])
        own, seen = slice(start, start + length), visible(length, late, causal, window_left, context)
        keys, values = k[own].double(), v[own].double()
        for i in range(length):
            query, flow = q[start + i].double(), d_out[start + i].double()
            scores = torch.where(seen[i, :, None], (keys * query).sum(-1) * alpha, 0.0)
            share = scores.sigmoid()
            part = torch.where(seen[i, :, None], (values * flow).sum(-1) * (share + scores * share * (1 - share)), 0.0)
            found["d_q"][start + i] = (part[..., None] * keys).sum(0) * alpha / max_len
            found["d_k"][own] += part[..., None] * query * alpha / max_len
            found["d_v"][own] += (scores * share)[..., None] * flow / max_len
        start += length
    return {name: x.to(q.dtype) for name, x in found.items()}
