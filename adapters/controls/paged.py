"""Right, but different: pages as servers read them, in ways none of which any law may accuse.

All accumulate in single precision or better, and none shares code with the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from .attention import LEAST, online

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {
    "empty_row": "zeros",
    "masked_nonfinite": "ignored",
    "unused_entries": "unread",
    "grouping": "block",
    "lse_base": "natural",
}


def _declared(**words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter("paged_attention", dtypes=DTYPES, conventions=CONVENTIONS | words)


@_declared()
def control_pages_gathered(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
    sink: Any = None,
    slopes: Any = None,
    mask: Any = None,
    bias: Any = None,
    window_right: int | None = 0,
    spans: Any = None,
    clamp_spans: bool = False,
) -> Any:
    """The tokens of every item in one piece, and an online softmax over blocks of 16 of them."""
    import torch

    outs, lses = [], []
    for item, count in enumerate(k_lens.tolist()):
        own = table[item, : -(-count // key_pages.shape[1])]
        k, v = (x[own].flatten(0, 1)[None, :count].transpose(1, 2) for x in (key_pages, value_pages))
        one = q[item : item + 1].transpose(1, 2)
        seen = visible(q.shape[1], count, window_left, window_right, [] if spans is None else spans[item].tolist())
        if clamp_spans and window_left is not None:
            seen = seen.triu(count - q.shape[1] - window_left)
        own = {"mask": seen if mask is None else seen & mask[item, :, :count]}
        if slopes is not None:
            own["bias"] = slopes[:, None, None] * torch.arange(count)  # from the first token on
        if bias is not None:
            own["bias"] = bias[item % len(bias), ..., :count]
        out, lse = online(one, k, v, scale=scale, softcap=softcap, sink=sink, **own)
        outs.append(out.transpose(1, 2))
        lses.append(lse)
    if not outs:
        return q.new_empty(*q.shape[:3], value_pages.shape[3])
    return {"out": torch.cat(outs).to(q.dtype), "lse": torch.cat(lses)}


def visible(q_len: int, count: int, left: int | None, right: int | None, spans: list[list[int]]) -> Any:
    """Which tokens of an item its last queries see: [q_len, count]."""
    import torch

    first = count - q_len
    seen = torch.ones(q_len, count, dtype=torch.bool)
    seen = seen.tril(count if right is None else first + right).triu(-q_len if left is None else first - left)
    for start, stop in ((a, b + 1) for a, b in spans):
        seen[max(start - first, 0) : max(stop - first, 0), max(start, 0) : max(stop, 0)] = True
    return seen


@_declared()
def control_page_by_page(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
    sink: Any = None,
    slopes: Any = None,
    mask: Any = None,
    bias: Any = None,
    window_right: int | None = 0,
    spans: Any = None,
    clamp_spans: bool = False,
) -> Any:
    """A page of all items at a time, the last page first, by powers of two, with a running maximum."""
    import torch

    (batch, q_len, heads, head_dim), (_, page_size, kv_heads, _) = q.shape, key_pages.shape
    factor = (head_dim**-0.5 if scale is None else scale) * 1.4426950408889634  # the binary logarithm of e
    queries = q.float().transpose(1, 2)
    row = k_lens[:, None] - q_len + torch.arange(q_len)
    whole = window_left is None or (spans is not None and not clamp_spans)
    first = torch.zeros_like(k_lens) if whole else k_lens - q_len - window_left
    top = torch.full((batch, heads, q_len, 1), -torch.inf)
    total, out = torch.zeros_like(top), torch.zeros(batch, heads, q_len, value_pages.shape[3])
    for number in reversed(range(table.shape[1])):
        slot = number * page_size + torch.arange(page_size)
        back = row[..., None] - slot
        near = back <= (row.max() if window_left is None else window_left)
        seen = near & (back >= -(float("inf") if window_right is None else window_right))
        if spans is not None:
            row_in, slot_in = ((x >= spans[..., :1]) & (x <= spans[..., 1:]) for x in (row[:, None], slot))
            seen = seen | (row_in[..., None] & slot_in[:, :, None]).any(1) & (near | (not clamp_spans))
        seen = seen & (slot < k_lens[:, None])[:, None]
        held = ((slot < k_lens[:, None]) & (slot >= first[:, None]))[..., None, None]  # pages before may be freed
        k, v = (x[table[:, number].clamp_min(0)].float().masked_fill(~held, 0.0) for x in (key_pages, value_pages))
        k, v = (x.transpose(1, 2).repeat_interleave(heads // kv_heads, 1) for x in (k, v))
        s = queries @ k.mT * factor
        if slopes is not None:
            s = s - slopes[:, None, None] * back[:, None] * 1.4426950408889634
        if bias is not None:
            s = s + bias[..., slot].float() * 1.4426950408889634
        if mask is not None:
            seen = seen & mask[..., slot]
        s = s.masked_fill(~seen[:, None], -torch.inf)
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        p, old = torch.exp2(s - new.clamp_min(LEAST)), torch.exp2(top - new.clamp_min(LEAST))
        top, total, out = new, total * old + p.sum(-1, keepdim=True), out * old + p @ v
    if sink is not None:
        total = total + torch.exp2(sink.float()[:, None, None] * 1.4426950408889634 - top.clamp_min(LEAST))
    return torch.where(total > 0, out / total, 0.0).transpose(1, 2).to(q.dtype)


@_declared()
def control_split(
    q: Any, key_pages: Any, value_pages: Any, table: Any, k_lens: Any, *, scale: float | None = None
) -> Any:
    """Two stretches of pages for every item, merged by their logsumexps; one of them may hold no token."""
    import torch

    page_size, width = key_pages.shape[1], table.shape[1]
    half, row = width // 2, k_lens[:, None] - q.shape[1] + torch.arange(q.shape[1])
    parts = []
    for first, last in ((0, half), (half, width)):
        slot = torch.arange(first * page_size, last * page_size)
        held = (slot < k_lens[:, None])[..., None, None]
        k, v = (
            x[table[:, first:last].clamp_min(0)].flatten(1, 2).masked_fill(~held, 7.0).transpose(1, 2)
            for x in (key_pages, value_pages)
        )
        seen = (slot <= row[..., None])[:, None]
        parts.append(online(q.transpose(1, 2), k, v, mask=seen, scale=scale, block=64))
    outs, lses = (torch.stack(found) for found in zip(*parts, strict=True))
    lse = torch.logsumexp(lses, 0)
    shares = torch.exp(lses - torch.where(lse == -torch.inf, 0.0, lse))
    return {"out": (shares[..., None] * outs).sum(0).transpose(1, 2).to(q.dtype), "lse": lse}


@_declared(empty_row="nans", masked_nonfinite="propagates", unused_entries="numbers", grouping="tiled")
def control_whole_pool(
    q: Any, key_pages: Any, value_pages: Any, table: Any, k_lens: Any, *, scale: float | None = None
) -> Any:
    """One softmax in double precision over all slots of the pool, of which those of other items are hidden."""
    import torch

    (batch, q_len, heads, head_dim), (pages, page_size, kv_heads, _) = q.shape, key_pages.shape
    token = torch.full((batch, pages, page_size), -1)  # the token of the item that a slot holds
    for item, number in ((b, n) for b in range(batch) for n in reversed(range(table.shape[1]))):
        if number * page_size < k_lens[item]:
            token[item, table[item, number]] = number * page_size + torch.arange(page_size)
    row, token = k_lens[:, None] - q_len + torch.arange(q_len), token.flatten(1)
    seen = (token[:, None] >= 0) & (token[:, None] <= row[..., None])
    k, v = (x.double().repeat(1, 1, heads // kv_heads, 1).flatten(0, 1) for x in (key_pages, value_pages))
    s = torch.einsum("bqhd,khd->bhqk", q.double(), k) * (head_dim**-0.5 if scale is None else scale)
    weights = torch.softmax(s.masked_fill(~seen[:, None], -torch.inf), -1)
    return torch.einsum("bhqk,khd->bqhd", weights, v).to(q.dtype)


@_declared(empty_row="zeros", lse_base="natural")
def control_pages_in_cascade(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Pages that all items begin with and the own ones of an item are attended apart, and both states are merged."""
    import torch

    page_size, q_len = key_pages.shape[1], q.shape[1]
    if not len(q) == len(table) == len(k_lens):
        raise ValueError("every item has a table and a length")
    if not len(q):
        return q.new_empty(*q.shape[:3], value_pages.shape[3])
    common = shared(table, k_lens - q_len + 1, page_size)

    def attend(item: int, first: int, last: int) -> Any:
        pages = table[item, first:last]
        k, v = (x[pages].flatten(0, 1)[None].transpose(1, 2) for x in (key_pages, value_pages))
        back = (k_lens[item] - q_len + torch.arange(q_len))[:, None] - first * page_size - torch.arange(k.shape[2])
        return online(q[item : item + 1].transpose(1, 2), k, v, mask=back >= 0, scale=scale, softcap=softcap)

    outs, lses = [], []
    for item, count in enumerate(k_lens.tolist()):
        parts = [attend(item, 0, common), attend(item, common, max(-(-count // page_size), common))]
        both = torch.stack([lse for _, lse in parts])
        lse = both.logsumexp(0)
        shares = (both - torch.where(lse == -torch.inf, 0.0, lse)).exp()[..., None]
        outs.append((shares * torch.stack([out for out, _ in parts])).sum(0).transpose(1, 2))
        lses.append(lse)
    return {"out": torch.cat(outs).to(q.dtype), "lse": torch.cat(lses)}


def shared(table: Any, seen: Any, page_size: int) -> int:
    """How many pages all items begin with, of which every query sees all tokens: `seen` is of the first query."""
    whole = max(int(seen.min()) // page_size, 0)
    return int((table == table[:1]).all(0)[:whole].long().cumprod(0).sum())
