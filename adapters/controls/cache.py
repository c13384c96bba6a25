"""Right, but different: caches as servers keep them, none of which any law may accuse.

All accumulate in single precision, and what a slot holds before it is written is garbage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from .attention import online

DTYPES = ("float32", "bfloat16", "float16")
GARBAGE = 12345.0
PAGE = 16


def _declared(function: Callable[..., Any]) -> Callable[..., Any]:
    return adapter("cached_attention", dtypes=DTYPES, conventions={"grouping": "block"})(function)


def rows(mask: Any, part: slice, first: int, like: Any) -> Any:
    """The rows of a mask for a chunk and its columns from `first` on: [..., chunk, keys]."""
    if mask is None:
        return None
    length = like.shape[2]
    return mask.broadcast_to(*mask.shape[:-2], length, length)[..., part, first : part.stop]


def reordered(beams: Any, *caches: Any) -> Any:
    """Rows as beam search takes them."""
    return caches if beams is None else tuple(x[list(beams)] for x in caches)


@_declared
def control_slots(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    mask: Any = None,
    capacity: int | None = None,
    window_left: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """Slots that are written in place, of which the filled ones are read."""
    import torch

    room = q.shape[2] if capacity is None else capacity
    if room < q.shape[2]:
        raise ValueError(f"{q.shape[2]} tokens do not fit into {room} slots")
    keys, values = (x.new_full((*x.shape[:2], room, x.shape[3]), GARBAGE) for x in (k, v))
    outs, start = [], 0
    for n in chunks:
        part = slice(start, start + n)
        keys[:, :, part], values[:, :, part] = k[:, :, part], v[:, :, part]
        own = rows(mask, part, 0, q)
        filled = keys[:, :, : part.stop], values[:, :, : part.stop]
        outs.append(online(q[:, :, part], *filled, mask=own, causal=True, window_left=window_left, scale=scale)[0])
        if start == 0:
            keys, values = reordered(beams, keys, values)
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared
def control_pages(q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], scale: float | None = None) -> Any:
    """Pages of a pool, in no order, found by a table for every item of the batch."""
    import torch

    batch, kv_heads, length, _ = k.shape
    count = -(-length // PAGE)
    order = torch.randperm(batch * count, generator=torch.Generator().manual_seed(0))
    table = order.reshape(batch, count)
    pools = [x.new_full((batch * count, kv_heads, PAGE, x.shape[3]), GARBAGE) for x in (k, v)]
    outs, start = [], 0
    for n in chunks:
        part = slice(start, start + n)
        position = torch.arange(start, start + n)
        for pool, x in zip(pools, (k, v), strict=True):
            pool[table[:, position // PAGE], :, position % PAGE] = x[:, :, part].transpose(1, 2)
        found = (pool[table].transpose(1, 2).flatten(2, 3)[:, :, : part.stop] for pool in pools)
        outs.append(online(q[:, :, part], *found, causal=True, scale=scale, block=PAGE, base_two=True)[0])
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared
def control_merged(q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], scale: float | None = None) -> Any:
    """The cache and the chunk by themselves, merged by their logsumexps."""
    import torch

    outs, start = [], 0
    for n in chunks:
        past, part = slice(0, start), slice(start, start + n)
        out, lse = online(q[:, :, part], k[:, :, part], v[:, :, part], causal=True, scale=scale)
        if start:
            older, other = online(q[:, :, part], k[:, :, past], v[:, :, past], scale=scale, block=32, backwards=True)
            gap = (lse - other)[..., None]
            out = torch.sigmoid(gap) * out + torch.sigmoid(-gap) * older
        outs.append(out)
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared
def control_rolling(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    mask: Any = None,
    window_left: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """A cache that drops what no query will see again, once a chunk is done."""
    import torch

    keys, values, outs, start, first = k[:, :, :0], v[:, :, :0], [], 0, 0
    for n in chunks:
        part = slice(start, start + n)
        keys, values = torch.cat([keys, k[:, :, part]], 2), torch.cat([values, v[:, :, part]], 2)
        own = rows(mask, part, first, q)
        outs.append(
            online(q[:, :, part], keys, values, mask=own, causal=True, window_left=window_left, scale=scale, block=7)[0]
        )
        if start == 0:
            keys, values = reordered(beams, keys, values)
        start += n
        if window_left is not None:
            dropped = max(start - window_left - first, 0)
            keys, values, first = keys[:, :, dropped:], values[:, :, dropped:], first + dropped
    return torch.cat(outs, 2).to(q.dtype)


@_declared
def control_without_cache(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], window_left: int | None = None, scale: float | None = None
) -> Any:
    """The whole sequence at once in double precision, rounded once; the chunks are of no interest."""
    import torch

    group, length = q.shape[1] // k.shape[1], q.shape[2]
    keys, values = (x.double().repeat_interleave(group, 1) for x in (k, v))
    s = q.double() @ keys.transpose(-1, -2) * (q.shape[3] ** -0.5 if scale is None else scale)
    distance = torch.arange(length)[:, None] - torch.arange(length)
    seen = distance >= 0 if window_left is None else (distance >= 0) & (distance <= window_left)
    return (torch.softmax(s.masked_fill(~seen, -torch.inf), -1) @ values).to(q.dtype)
