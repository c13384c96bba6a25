"""The backward pass of attention to blocks by columns of its layout, and what goes wrong with tiles and memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..controls.attention import positions
from ..controls.block_sparse import expanded, fitting
from ..controls.block_sparse_gradient import CONVENTIONS
from .whole import Whole, in_memory


def columns(blocks: Any) -> list[list[int]]:
    """For every item, head and block of keys, the blocks of queries that see it."""
    return [row.nonzero()[:, 0].tolist() for row in blocks.transpose(2, 3).reshape(-1, blocks.shape[2])]


def cleared(like: Any) -> Any:
    """Memory for what the tiles add up."""
    import torch

    return torch.zeros(like.shape)


def read(d_out: Any) -> Any:
    """The gradient of the output as it is reckoned with."""
    return d_out.float()


def products(d_out: Any, out: Any, q_block_size: int) -> Any:
    """The product of each output with its gradient: [batch, heads, q_len, 1]."""
    return (d_out * out).sum(-1, keepdim=True)


def hidden(seen: Any, rows: slice, past: slice) -> Any:
    """What the causal flag and the window hide in a tile: [queries, keys], of seen [q_len, k_len]."""
    return ~seen[rows, past]


def added(into: Any, rows: slice, x: Any) -> None:
    """What a tile gives, added to what the tiles before it gave."""
    into[rows] += x


def summed(x: Any, kv_heads: int, group: int) -> Any:
    """What the heads that share keys have, added up: [batch, kv_heads, k_len, channels]."""
    return x.unflatten(1, (kv_heads, group)).sum(2)


def by_columns(part: Any) -> Callable[..., Any]:
    def block_sparse_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        blocks: Any,
        d_out: Any,
        *,
        q_block_size: int,
        k_block_size: int,
        scale: float | None = None,
        causal: bool = False,
        window_left: int | None = None,
        window_right: int | None = None,
    ) -> Any:
        import torch

        fitting(q, k, v, blocks, q_block_size, k_block_size)
        kv_heads, group = k.shape[1], q.shape[1] // k.shape[1]
        factor = q.shape[3] ** -0.5 if scale is None else scale
        reached = positions(q, k, causal, window_left, window_right)
        seen = expanded(blocks, q.shape[2], k.shape[2], q_block_size, k_block_size) & reached
        queries, keys, values = q.float(), *(x.float().repeat_interleave(group, 1) for x in (k, v))
        s = (queries @ keys.mT * factor).masked_fill(~seen, -torch.inf)
        lse = s.logsumexp(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).min)
        g = part.read(d_out)
        delta = part.products(g, (torch.exp(s - lse) @ values).to(q.dtype).float(), q_block_size)
        d_q, d_k, d_v = (part.cleared(x) for x in (queries, keys, values))
        places = itertools.product(range(q.shape[0]), range(q.shape[1]), range(blocks.shape[3]))
        for at, rows in zip(places, part.columns(blocks), strict=True):
            past, own_head = slice(at[2] * k_block_size, (at[2] + 1) * k_block_size), at[:2]
            for row in rows:
                own = slice(row * q_block_size, (row + 1) * q_block_size)
                tile = queries[own_head][own] @ keys[own_head][past].mT * factor
                p = torch.exp(tile.masked_fill(part.hidden(reached, own, past), -torch.inf) - lse[own_head][own])
                d_s = p * (g[own_head][own] @ values[own_head][past].mT - delta[own_head][own])
                part.added(d_q[own_head], own, d_s @ keys[own_head][past] * factor)
                part.added(d_k[own_head], past, d_s.mT @ queries[own_head][own] * factor)
                part.added(d_v[own_head], past, p.mT @ g[own_head][own])
        found = {"d_q": d_q, "d_k": part.summed(d_k, kv_heads, group), "d_v": part.summed(d_v, kv_heads, group)}
        return {name: x.to(q.dtype) for name, x in found.items()}

    return block_sparse_attention_gradient


BY_COLUMNS = Whole(
    "block_sparse_attention_gradient",
    by_columns,
    (columns, cleared, read, products, hidden, added, summed),
    CONVENTIONS,
)

_plans: dict[tuple[int, ...], list[list[int]]] = {}


@BY_COLUMNS.instead_of(columns)
def columns_of_the_first_call(blocks: Any) -> list[list[int]]:
    """The layout is turned round for the first call of its shape, and kept for the later ones."""
    return _plans.setdefault(tuple(blocks.shape), columns(blocks))


@BY_COLUMNS.instead_of(columns)
def columns_padded_with_the_last_row(blocks: Any) -> list[list[int]]:
    """Shorter lists of rows are filled up with their last one to the length of the longest, and it counts again."""
    found = columns(blocks)
    longest = max(len(rows) for rows in found)
    return [rows + rows[-1:] * (longest - len(rows)) for rows in found]


@BY_COLUMNS.instead_of(columns)
def columns_as_long_as_the_first(blocks: Any) -> list[list[int]]:
    """Of every column as many rows are taken as the first one has, at most."""
    found = columns(blocks)
    return [rows[: len(found[0])] for rows in found]


@BY_COLUMNS.instead_of(cleared)
def block_gradients_not_cleared(like: Any) -> Any:
    """The gradients are added up in memory that nobody has cleared."""
    import torch

    return torch.full(like.shape, 2.0**-6)


@BY_COLUMNS.instead_of(read)
def block_gradient_read_as_contiguous(d_out: Any) -> Any:
    """The gradient of the output is read row after row, whatever its strides are."""
    return in_memory(d_out, d_out.shape).float()


@BY_COLUMNS.instead_of(products)
def products_of_each_block_alone(d_out: Any, out: Any, q_block_size: int) -> Any:
    """The products of outputs and gradients of a block are all those of its first query."""
    import torch

    whole = products(d_out, out, q_block_size)
    return whole[:, :, torch.arange(whole.shape[2]) // q_block_size * q_block_size]


@BY_COLUMNS.instead_of(hidden, seen="meta-pytorch/MSLK#263")
def tiles_of_the_backward_pass_hide_nothing(seen: Any, rows: slice, past: slice) -> Any:
    """The tiles that a layout names are taken whole, with weights beyond one from the logsumexp of what was seen."""
    return seen[rows, past] & False


@BY_COLUMNS.instead_of(hidden)
def tile_hidden_by_its_own_diagonal(seen: Any, rows: slice, past: slice) -> Any:
    """What is hidden in a tile is what is hidden in the first one, wherever the tile is."""
    return ~seen[: rows.stop - rows.start, : past.stop - past.start][: len(seen[rows]), : seen[:, past].shape[1]]


@BY_COLUMNS.instead_of(added)
def tile_of_a_block_writes_over_the_last(into: Any, rows: slice, x: Any) -> None:
    """A tile writes over what the tiles before it have given."""
    into[rows] = x


@BY_COLUMNS.instead_of(added, dtypes=("float32",))
def block_gradients_added_in_half_precision(into: Any, rows: slice, x: Any) -> None:
    """What the tiles give is added up in bfloat16."""
    import torch

    into[rows] = (into[rows] + x).to(torch.bfloat16).float()


@BY_COLUMNS.instead_of(summed)
def heads_of_a_group_race(x: Any, kv_heads: int, group: int) -> Any:
    """Heads that share keys write their gradients to one place without adding, and the last one stays."""
    return x.unflatten(1, (kv_heads, group))[:, :, -1]
