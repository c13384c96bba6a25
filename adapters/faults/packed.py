"""Packed attention in tiles, and what goes wrong with running sums, tiles across items, and what outlives a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from ..controls.packed import CONVENTIONS, batched
from ..torch.packed import cumulative
from .whole import Whole

TILE = 16
"""Queries that are taken at a time."""


def ends(lens: Any, like: Any) -> list[int]:
    """Where items begin, and at last where the last one ends."""
    return cumulative(lens).tolist()


def items(q_lens: Any, k_lens: Any) -> list[int]:
    """Those whose results are written."""
    return list(range(len(q_lens)))


def tiles(starts: list[int], item: int) -> list[slice]:
    """The queries of an item, tile by tile."""
    first, last = starts[item : item + 2]
    return [slice(at, min(at + TILE, last)) for at in range(first, last, TILE)]


def keys(starts: list[int], item: int, split: int) -> list[slice]:
    """The keys of an item, in two stretches if they are more than `split`."""
    first, last = starts[item : item + 2]
    return [slice(at, min(at + split, last)) for at in range(first, max(last, first + 1), split)]


def merged(parts: list[Any]) -> Any:
    """Partial results by their logsumexps: [1, heads, queries, value_dim]."""
    import torch

    outs, lses = torch.stack([out for out, _ in parts]), torch.stack([lse for _, lse in parts])
    lse = torch.logsumexp(lses, 0)
    return (torch.exp(lses - torch.where(lse == -torch.inf, 0.0, lse))[..., None] * outs).sum(0)


def position(tile: slice, starts: list[int], item: int) -> int:
    """The place of the first query of a tile in its item."""
    return tile.start - starts[item]


def tiled(part: Any) -> Callable[..., Any]:
    def packed_attention(
        q: Any,
        k: Any,
        v: Any,
        q_lens: Any,
        k_lens: Any,
        *,
        scale: float | None = None,
        causal: bool = False,
    ) -> Any:
        import torch

        q_at, k_at = part.ends(q_lens, q), part.ends(k_lens, q)
        out = q.new_full((*q.shape[:2], v.shape[2]), float("nan"))  # what the memory held
        for item in part.items(q_lens, k_lens):
            count, ahead = k_at[item + 1] - k_at[item], int(k_lens[item] - q_lens[item])
            for tile in part.tiles(q_at, item):
                row = part.position(tile, q_at, item) + torch.arange(tile.stop - tile.start) + ahead
                seen = (torch.arange(count) <= row[:, None]) | (not causal)
                found = []
                for stretch in part.keys(k_at, item, 4 * TILE):
                    own = seen[:, stretch.start - k_at[item] : stretch.stop - k_at[item]]
                    found.append(
                        online(*(batched(x) for x in (q[tile], k[stretch], v[stretch])), mask=own, scale=scale)
                    )
                out[tile] = part.merged(found)[0].transpose(0, 1).to(q.dtype)
        return out

    return packed_attention


TILED = Whole("packed_attention", tiled, (ends, items, tiles, keys, merged, position), CONVENTIONS)


@TILED.instead_of(ends, dtypes=("bfloat16",))
def sums_in_the_dtype_of_the_tokens(lens: Any, like: Any) -> list[int]:
    """The running sums are kept in the dtype of the queries, which does not have every integer beyond 256."""
    return [min(int(end), int(lens.sum())) for end in cumulative(lens).to(like.dtype).tolist()]


@TILED.instead_of(ends)
def sums_in_eight_bits(lens: Any, like: Any) -> list[int]:
    """The running sums are kept in eight bits, and begin again at 256."""
    return [end % 256 for end in cumulative(lens).tolist()]


_sums: dict[tuple[int, int], list[int]] = {}


@TILED.instead_of(ends)
def sums_of_another_call(lens: Any, like: Any) -> list[int]:
    """The running sums are those of the first call with as many items and as many tokens."""
    return _sums.setdefault((len(lens), int(lens.sum())), cumulative(lens).tolist())


@TILED.instead_of(items)
def first_item_alone_where_keys_are_split(q_lens: Any, k_lens: Any) -> list[int]:
    """Where the keys of some item are split, the stretches of the first item alone are merged and written."""
    return [0] if max(k_lens.tolist()) > 4 * TILE else items(q_lens, k_lens)


@TILED.instead_of(items, seen="Dao-AILab/flash-attention#1155")
def items_without_keys_unwritten(q_lens: Any, k_lens: Any) -> list[int]:
    """The rows of items without keys are not written."""
    return [item for item in items(q_lens, k_lens) if k_lens[item] > 0]


@TILED.instead_of(tiles)
def first_tile_alone(starts: list[int], item: int) -> list[slice]:
    """The launch is as large as the first item needs, and later items lose the tiles that they have more."""
    count = -(-(starts[1] - starts[0]) // TILE)
    return tiles(starts, item)[: max(count, 1)]


@TILED.instead_of(tiles)
def whole_tiles_written(starts: list[int], item: int) -> list[slice]:
    """The last tile of an item is dropped, unless it is full or the only one."""
    found = tiles(starts, item)
    return [one for one in found if one.stop - one.start == TILE] or found


@TILED.instead_of(keys)
def stretches_of_the_pack(starts: list[int], item: int, split: int) -> list[slice]:
    """Stretches of keys begin at whole multiples in the pack, and the first of an item begins too late."""
    found = keys(starts, item, split)
    return found if len(found) == 1 else [slice(-(-one.start // 4) * 4, one.stop) for one in found]


@TILED.instead_of(merged)
def last_stretch_alone(parts: list[Any]) -> Any:
    """Of several stretches of keys, the last one is taken for the result."""
    return parts[-1][0]


@TILED.instead_of(merged)
def stretches_averaged(parts: list[Any]) -> Any:
    """Stretches are averaged, whatever their weights are."""
    return sum(out for out, _ in parts) / len(parts)


@TILED.instead_of(position)
def place_of_the_tile(tile: slice, starts: list[int], item: int) -> int:
    """Every tile counts its queries from the start of the item."""
    return 0
