"""Right, but different: caches from which items take back what they do not keep, none of which any law may accuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from .attention import online
from .cache import DTYPES, GARBAGE

PAGE = 4


def _declared(function: Callable[..., Any]) -> Callable[..., Any]:
    return adapter("cached_attention", dtypes=DTYPES, conventions={"grouping": "block"})(function)


@_declared
def control_rewound_slots(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    kept: Any,
    capacity: int | None = None,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """Slots of all items side by side, a count of the filled ones for each, and what was taken back left as it is."""
    import torch

    batch, _, length, _ = q.shape
    filled = torch.zeros(batch, dtype=torch.long, device=q.device)
    room = length if capacity is None else capacity
    keys, values = (x.new_full((*x.shape[:2], room, x.shape[3]), GARBAGE) for x in (k, v))
    outs, start = [], 0
    for c, n in enumerate(chunks):
        part, slot = slice(start, start + n), filled[:, None] + torch.arange(n, device=q.device)
        if int(slot.max()) >= room:
            raise ValueError(f"slot {int(slot.max())} of {room}")
        item = torch.arange(batch, device=q.device)[:, None]
        keys[item, :, slot], values[item, :, slot] = k[:, :, part].transpose(1, 2), v[:, :, part].transpose(1, 2)
        far = slot[..., None] - torch.arange(room, device=q.device)
        seen = (far >= 0) if window_left is None else (far >= 0) & (far <= window_left)
        outs.append(online(q[:, :, part], keys, values, mask=seen[:, None], scale=scale, block=5)[0])
        filled, start = filled + kept[:, c], start + n
    return torch.cat(outs, 2).to(q.dtype)


@_declared
def control_pages_given_back(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], kept: Any, scale: float | None = None
) -> Any:
    """Pages of a pool that items give back as they are rewound, and that others then write to."""
    import torch

    free = list(range(q.shape[0] * (-(-q.shape[2] // PAGE) + 1)))
    pools = [x.new_full((len(free), PAGE, x.shape[1], x.shape[3]), GARBAGE) for x in (k, v)]
    tables: list[list[int]] = [[] for _ in q]
    filled, outs, start = [0] * len(q), [], 0
    for c, n in enumerate(chunks):
        part, rows = slice(start, start + n), []
        for b, table in enumerate(tables):
            end = filled[b] + n
            table += [free.pop(0) for _ in range(-(-end // PAGE) - len(table))]
            place = torch.arange(filled[b], end)
            page = torch.tensor(table)[place // PAGE]
            for pool, x in zip(pools, (k, v), strict=True):
                pool[page, place % PAGE] = x[b, :, part].transpose(0, 1)
            found = (pool[table].flatten(0, 1)[:end].transpose(0, 1)[None] for pool in pools)
            rows.append(online(q[b : b + 1, :, part], *found, causal=True, scale=scale, base_two=True)[0])
            filled[b] += int(kept[b, c])
            needed = -(-filled[b] // PAGE)
            free[:0] = table[needed:]
            del table[needed:]
        outs.append(torch.cat(rows))
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared
def control_without_what_is_rejected(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], kept: Any, scale: float | None = None
) -> Any:
    """No cache: each token against the list of what it sees, in double precision, rounded once."""
    import torch

    group, out, start = q.shape[1] // k.shape[1], v.new_zeros(*q.shape[:3], v.shape[3]), 0
    keys, values = (x.double().repeat_interleave(group, 1) for x in (k, v))
    histories: list[list[int]] = [[] for _ in q]
    for c, n in enumerate(chunks):
        for b, past in enumerate(histories):
            for t in range(start, start + n):
                seen = [*past, *range(start, t + 1)]
                s = keys[b, :, seen] @ q[b, :, t, :, None].double() * (q.shape[3] ** -0.5 if scale is None else scale)
                out[b, :, t] = (torch.softmax(s, 1).mT @ values[b, :, seen])[:, 0].to(v.dtype)
            past.extend(range(start, start + int(kept[b, c])))
        start += n
    return out.to(q.dtype)
