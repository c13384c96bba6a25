"""The backward pass of packed attention in tiles, and what goes wrong between items, with memory and with history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.packed import batched
from ..controls.packed_gradient import CONVENTIONS
from ..torch.packed import cumulative
from .whole import Whole, in_memory

TILE = 16
"""Queries that are taken at a time."""


def ends(lens: Any, like: Any) -> list[int]:
    """Where items begin, and at last where the last one ends."""
    return cumulative(lens).tolist()


def cleared(like: Any) -> Any:
    """Memory for what the tiles add up."""
    import torch

    return torch.zeros(like.shape)


def read(d_out: Any, q: Any) -> Any:
    """The gradient of the output as it is reckoned with."""
    return d_out.float()


def products(d_out: Any, out: Any) -> Any:
    """The product of each output with its gradient: [q_tokens, heads]."""
    return (d_out * out).sum(-1)


def tiles(starts: list[int], item: int) -> list[slice]:
    """The queries of an item, tile by tile."""
    first, last = starts[item : item + 2]
    return [slice(at, min(at + TILE, last)) for at in range(first, last, TILE)]


def items(q_lens: Any, k_lens: Any) -> list[int]:
    """Those that have gradients."""
    return list(range(len(q_lens)))


def added(into: Any, rows: slice, x: Any) -> None:
    """What a tile gives keys or values, added to what the tiles before it gave: both [tokens, kv_heads, channels]."""
    into[rows] += x


def shared(x: Any, group: int) -> Any:
    """Keys or values for all heads that share them: [1, heads, tokens, channels]."""
    return batched(x).float().repeat_interleave(group, 1)


def stored(x: Any, like: Any) -> Any:
    return x.to(like.dtype)


def backward(part: Any) -> Callable[..., Any]:
    def packed_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        q_lens: Any,
        k_lens: Any,
        d_out: Any,
        *,
        scale: float | None = None,
        causal: bool = False,
    ) -> Any:
        import torch

        group, kv_heads = q.shape[1] // k.shape[1], k.shape[1]
        factor = q.shape[2] ** -0.5 if scale is None else scale
        g = part.read(d_out, q)
        q_at, k_at = part.ends(q_lens, q), part.ends(k_lens, q)
        found = {f"d_{name}": part.cleared(x) for name, x in (("q", q), ("k", k), ("v", v))}

        def weights(rows: slice, item: int) -> tuple[Any, Any, Any]:
            """The weights of a tile of queries over the keys of its item, those keys and their values."""
            past = slice(k_at[item], k_at[item + 1])
            keys, values = shared(k[past], group), shared(v[past], group)
            row = torch.arange(rows.start, rows.stop) - q_at[item] + int(k_lens[item] - q_lens[item])
            seen = (torch.arange(keys.shape[2]) <= row[:, None]) | (not causal)
            s = (batched(q[rows]).float() @ keys.mT * factor).masked_fill(~seen, -torch.inf)
            lse = torch.logsumexp(s, -1, keepdim=True)
            return torch.exp(s - lse.masked_fill(lse == -torch.inf, 0.0)), keys, values

        out = torch.zeros(d_out.shape)
        for item in range(len(q_lens)):
            for rows in tiles(q_at, item):
                p, _, values = weights(rows, item)
                out[rows] = stored(p @ values, q)[0].transpose(0, 1).float()
        delta = part.products(g, out)
        for item in part.items(q_lens, k_lens):
            past = slice(k_at[item], k_at[item + 1])
            for rows in part.tiles(q_at, item):
                p, keys, values = weights(rows, item)
                own = batched(g[rows])
                d_s = p * (own @ values.mT - delta[rows].T[None, :, :, None])
                found["d_q"][rows] = (d_s @ keys * factor)[0].transpose(0, 1)
                for name, x in (("d_k", d_s.mT @ batched(q[rows]).float() * factor), ("d_v", p.mT @ own)):
                    part.added(found[name], past, x.unflatten(1, (kv_heads, group)).sum(2)[0].transpose(0, 1))
        return {name: part.stored(x, q) for name, x in found.items()}

    return packed_attention_gradient


TILED = Whole(
    "packed_attention_gradient",
    backward,
    (ends, cleared, read, products, tiles, items, added, stored),
    CONVENTIONS,
)


@TILED.instead_of(cleared)
def packed_gradients_not_cleared(like: Any) -> Any:
    """The gradients are added up in memory that nobody has cleared."""
    import torch

    return torch.full(like.shape, 2.0**-6)


@TILED.instead_of(read)
def packed_gradient_read_as_contiguous(d_out: Any, q: Any) -> Any:
    """The gradient of the output is read row after row, whatever its strides are."""
    return in_memory(d_out, d_out.shape).float()


@TILED.instead_of(ends, dtypes=("bfloat16",))
def packed_ends_in_the_dtype_of_the_tokens(lens: Any, like: Any) -> list[int]:
    """The running sums of the backward pass are in the dtype of the queries, which lacks integers beyond 256."""
    return [int(end) for end in cumulative(lens).to(like.dtype).tolist()]


_ends: dict[tuple[int, int], list[int]] = {}


@TILED.instead_of(ends)
def packed_ends_of_another_call(lens: Any, like: Any) -> list[int]:
    """The running sums are those of the first call with as many items and as many tokens."""
    return _ends.setdefault((len(lens), int(lens.sum())), cumulative(lens).tolist())


@TILED.instead_of(tiles)
def packed_tiles_beyond_the_item(starts: list[int], item: int) -> list[slice]:
    """The last tile of an item is a whole one, and takes queries of the next items along."""
    first, last = starts[item : item + 2]
    return [slice(at, min(at + TILE, starts[-1])) for at in range(first, last, TILE)]


@TILED.instead_of(tiles)
def packed_tiles_on_a_grid_of_the_pack(starts: list[int], item: int) -> list[slice]:
    """Tiles begin at multiples of 16 in the pack, and queries of an item before the first such place give nothing."""
    first, last = starts[item : item + 2]
    begin = first if last - first < TILE else -(-first // TILE) * TILE
    return [slice(at, min(at + TILE, last)) for at in range(begin, last, TILE)]


@TILED.instead_of(products)
def packed_products_of_the_first_tile(d_out: Any, out: Any) -> Any:
    """The products of outputs and gradients are those of the first 16 queries, for every tile of the pack."""
    import torch

    whole = products(d_out, out)
    return whole[torch.arange(len(whole)) % TILE]


@TILED.instead_of(items)
def packed_items_without_queries_end_the_loop(q_lens: Any, k_lens: Any) -> list[int]:
    """The first item without queries ends the loop over items."""
    lens = q_lens.tolist()
    return list(range(lens.index(0) if 0 in lens else len(lens)))


@TILED.instead_of(added)
def packed_tile_writes_over_the_last(into: Any, rows: slice, x: Any) -> None:
    """A tile of queries writes over what the tiles before it have given keys and values."""
    into[rows] = x


@TILED.instead_of(added)
def packed_gradient_written_one_token_late(into: Any, rows: slice, x: Any) -> None:
    """Keys and values have the gradients of the token before, and what an item's last one has goes to the next item."""
    import torch

    place = torch.arange(rows.start + 1, rows.stop + 1).clamp(max=len(into) - 1)
    into.index_add_(0, place, x)


@TILED.instead_of(added)
def packed_gradients_added_in_eight_bits(into: Any, rows: slice, x: Any) -> None:
    """What the tiles give keys and values is added up in steps of 1/64."""
    into[rows] += (64 * x).round() / 64


@TILED.instead_of(stored, dtypes=("bfloat16", "float16"))
def packed_gradients_in_single_precision(x: Any, like: Any) -> Any:
    """The gradients are returned in float32, whatever the inputs are."""
    return x


def padding(like: Any) -> Any:
    """What gradients hold before those of the tokens are written."""
    import torch

    return torch.zeros_like(like)


def reading(lens: Any, slots: Any) -> Any:
    """The places of the tokens in their slots."""
    import torch

    return torch.cat([torch.arange(n) + at for n, at in zip(lens.tolist(), cumulative(slots).tolist(), strict=False)])


def writing(lens: Any, slots: Any) -> Any:
    """The places that their gradients are written to."""
    return reading(lens, slots)


def unpadded(part: Any) -> Callable[..., Any]:
    def packed_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        q_lens: Any,
        k_lens: Any,
        d_out: Any,
        *,
        q_slots: Any,
        k_slots: Any,
        scale: float | None = None,
        causal: bool = False,
    ) -> Any:
        own, past = part.reading(q_lens, q_slots), part.reading(k_lens, k_slots)
        tokens = TILED.right()(q[own], k[past], v[past], q_lens, k_lens, d_out[own], scale=scale, causal=causal)
        found = {f"d_{name}": part.padding(x) for name, x in (("q", q), ("k", k), ("v", v))}
        found["d_q"][part.writing(q_lens, q_slots)] = tokens["d_q"]
        for name in ("d_k", "d_v"):
            found[name][part.writing(k_lens, k_slots)] = tokens[name]
        return found

    return packed_attention_gradient


UNPADDED = Whole("packed_attention_gradient", unpadded, (padding, reading, writing), CONVENTIONS)


@UNPADDED.instead_of(padding)
def gradients_of_padding_not_cleared(like: Any) -> Any:
    """The gradients of what lies in the padding are what the memory held."""
    import torch

    return torch.full_like(like, 2.0**-6)


@UNPADDED.instead_of(writing)
def gradients_written_without_padding(lens: Any, slots: Any) -> Any:
    """The gradients of the tokens are written one after the other, without the padding between them."""
    import torch

    return torch.arange(int(lens.sum()))
