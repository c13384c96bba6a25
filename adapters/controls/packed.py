"""Right, but different: packed items as kernels and servers take them, none of which any law may accuse.

All accumulate in single precision or better, and none shares code with the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from ..torch.packed import cumulative
from .attention import online

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {
    "causal_alignment": "bottom_right",
    "empty_row": "zeros",
    "masked_nonfinite": "ignored",
    "grouping": "block",
    "lse_base": "natural",
}


def _declared(**words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter("packed_attention", dtypes=DTYPES, conventions=CONVENTIONS | words)


def places(lens: Any, slots: Any) -> Any:
    """How many places of the pack each item has."""
    return lens if slots is None else slots


def batched(x: Any) -> Any:
    """[tokens, heads, size] as a batch of one: [1, heads, tokens, size]."""
    return x.transpose(0, 1)[None]


@_declared()
def control_items(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
    sink: Any = None,
    slopes: Any = None,
    q_slots: Any = None,
    k_slots: Any = None,
) -> Any:
    """Item by item, each with an online softmax over blocks of 16 keys."""
    import torch

    out = q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))
    lse = q.new_full(q.shape[1::-1], -float("inf"), dtype=out.float().dtype)
    q_at, k_at = (cumulative(x).tolist() for x in (places(q_lens, q_slots), places(k_lens, k_slots)))
    for item, (n, m) in enumerate(zip(q_lens.tolist(), k_lens.tolist(), strict=True)):
        own, past = slice(q_at[item], q_at[item] + n), slice(k_at[item], k_at[item] + m)
        back = torch.arange(n)[:, None] + (m - n) - torch.arange(m)
        found, total = online(
            *(batched(x) for x in (q[own], k[past], v[past])),
            bias=None if slopes is None else -slopes[:, None, None] * back.abs(),
            sink=sink,
            causal=causal,
            window_left=window_left,
            window_right=window_right,
            scale=scale,
            softcap=softcap,
        )
        out[own], lse[:, own] = found[0].transpose(0, 1).to(q.dtype), total[0]
    return {"out": out, "lse": lse}


@_declared()
def control_block_diagonal(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """One mask of blocks along the diagonal for the whole pack, by powers of two, the last keys first."""
    import torch

    q_item, k_item = (torch.repeat_interleave(torch.arange(len(n)), n) for n in (q_lens, k_lens))
    row = torch.arange(len(q)) + (k_lens.cumsum(0) - q_lens.cumsum(0))[q_item]
    behind = torch.arange(len(k)) - row[:, None]
    mask = q_item[:, None] == k_item
    for bound, outside in (
        (0 if causal else None, torch.gt),
        (window_right, torch.gt),
        (None if window_left is None else -window_left, torch.lt),
    ):
        mask = mask if bound is None else mask & ~outside(behind, bound)
    clean = [batched(x).masked_fill(~torch.isfinite(x).all(-1).T[None, ..., None], 0.0) for x in (k, v)]
    out, lse = online(batched(q), *clean, mask=mask, scale=scale, block=64, backwards=True, base_two=True)
    return {"out": out[0].transpose(0, 1).to(q.dtype), "lse": lse[0]}


@_declared(causal_alignment="top_left", padded_queries="left_open")
def control_padded(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    softcap: float | None = None,
    sink: Any = None,
    slopes: Any = None,
    q_slots: Any = None,
    k_slots: Any = None,
) -> Any:
    """Unpacked into a padded batch, in double precision, and packed again; the padding is garbage."""
    import torch

    q_at, k_at = (torch.arange(max([0, *n.tolist()])) for n in (q_lens, k_lens))
    q_in, k_in = q_at < q_lens[:, None], k_at < k_lens[:, None]
    q_from, k_from = (
        (cumulative(places(lens, slots))[:-1, None] + at)[inside]
        for lens, slots, at, inside in ((q_lens, q_slots, q_at, q_in), (k_lens, k_slots, k_at, k_in))
    )
    padded = []
    for x, inside, source in ((q, q_in, q_from), (k, k_in, k_from), (v, k_in, k_from)):
        room = torch.full((*inside.shape, *x.shape[1:]), 12345.0, dtype=torch.float64)
        room[inside] = x[source].double()
        padded.append(room.transpose(1, 2).repeat_interleave(q.shape[1] // x.shape[1], 1))
    s = padded[0] @ padded[1].mT * (q.shape[2] ** -0.5 if scale is None else scale)
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    if slopes is not None:
        s = s - slopes.double()[:, None, None] * (q_at[:, None] - k_at).abs()
    seen = k_in[:, None, None] & ((k_at <= q_at[:, None]) if causal else torch.tensor(True))
    values = padded[2].masked_fill(~k_in[:, None, :, None], 0.0)
    s = s.masked_fill(~seen, -torch.inf)
    if sink is not None:
        s = torch.cat([s, sink.double()[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    weights = torch.softmax(s, -1).nan_to_num(0.0)[..., : len(k_at)] if len(k_at) else s[..., :0]
    out = q.new_full((*q.shape[:2], v.shape[2]), 12345.0)
    out[q_from] = (weights @ values).transpose(1, 2)[q_in].to(q.dtype)
    return out


@_declared(empty_row="nans", grouping="tiled", lse_base="two", masked_nonfinite="propagates")
def control_segments(
    q: Any, k: Any, v: Any, q_lens: Any, k_lens: Any, *, scale: float | None = None, causal: bool = False
) -> Any:
    """Segment numbers and places of every token, and a plain softmax of all scores."""
    import torch

    group = q.shape[1] // k.shape[1]
    place = [torch.cat([torch.arange(int(n)) - int(n) for n in lens]) for lens in (q_lens, k_lens)]
    segment = [torch.repeat_interleave(torch.arange(len(lens)), lens) for lens in (q_lens, k_lens)]
    hidden = segment[0][:, None] != segment[1]
    if causal:
        hidden |= place[1] > place[0][:, None]
    factor = q.shape[2] ** -0.5 if scale is None else scale
    s = torch.einsum("qhd,khd->hqk", q.float(), k.float().repeat(1, group, 1)) * factor
    s = s.masked_fill(hidden, -torch.inf)
    out = torch.einsum("hqk,khd->qhd", torch.softmax(s, -1), v.float().repeat(1, group, 1))
    return {"out": out.to(q.dtype), "lse": torch.logsumexp(s, -1) / 0.6931471805599453}
