"""Attention tile by tile with a running maximum, and what goes wrong at the edges of tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..controls.attention import positions
from .whole import Whole

NUMBERS = (16, 32, 64, 128)
SIZES = {
    **{f"tiles of {n}": (n, n, True) for n in NUMBERS},
    **{f"{n} keys at a time": (1 << 20, n, False) for n in NUMBERS},
    "one key at a time": (1 << 20, 1, False),
}
"""How many queries and how many keys are taken at a time, and whether what is hidden wholly is skipped.

The first is what a fault is declared with.
"""
CONVENTIONS = {
    "causal_alignment": "bottom_right",
    "empty_row": "zeros",
    "masked_nonfinite": "propagates",
    "grouping": "block",
    "lse_base": "natural",
}


def query_tiles(q_len: int, n: int) -> list[slice]:
    return [slice(start, min(start + n, q_len)) for start in range(0, q_len, n)]


def key_tiles(k_len: int, n: int) -> list[slice]:
    return [slice(start, min(start + n, k_len)) for start in range(0, k_len, n)]


def visited(tiles: Sequence[slice], seen: Any, rows: slice) -> list[slice]:
    """The tiles in which some query of some item sees a key."""
    return [tile for tile in tiles if seen[:, :, rows, tile].any()]


def visible(seen: Any, rows: slice, tile: slice, n: int) -> Any:
    return seen[:, :, rows, tile]


def read(x: Any, tile: slice, n: int) -> Any:
    """Keys or values of a tile."""
    return x[:, :, tile]


def products(q: Any, keys: Any, n: int) -> Any:
    return q @ keys.transpose(-1, -2)


def hidden(s: Any, seen: Any, n: int) -> Any:
    import torch

    return s.masked_fill(~seen, -torch.inf)


def first_maximum(top: Any) -> Any:
    import torch

    return top.fill_(-torch.inf)


def greatest(top: Any, s: Any, n: int) -> Any:
    """The running maximum of every query: [..., 1]."""
    import torch

    return torch.maximum(top, s.amax(-1, keepdim=True))


def finite(top: Any) -> Any:
    """What is subtracted: the maximum, or zero as long as there is none."""
    import torch

    return top.masked_fill(top == -torch.inf, 0.0)


def rescaling(top: Any, new: Any, last: bool) -> Any:
    """By what earlier sums shrink."""
    return (top - new).exp()


def total(so_far: Any, old: Any, p: Any, s: Any, top: Any, n: int) -> Any:
    return so_far * old + p.sum(-1, keepdim=True)


def attended(so_far: Any, old: Any, p: Any, values: Any) -> Any:
    return so_far * old + p @ values


def kept_maximum(new: Any, subtracted: Any) -> Any:
    return new


def divided(out: Any, total: Any) -> Any:
    import torch

    return torch.where(total > 0, out / torch.where(total > 0, total, 1.0), 0.0)


def widened(q: Any, k: Any, v: Any, scale: float | None) -> Any:
    """Scaled queries, and keys and values for every head, in single precision."""
    group = q.shape[1] // k.shape[1]
    queries = q.float() * (q.shape[3] ** -0.5 if scale is None else scale)
    return queries, *(x.float().repeat_interleave(group, 1) for x in (k, v))


def visible_keys(q: Any, k: Any, mask: Any, reached: Any) -> Any:
    """Which keys each query sees: [batch, heads, q_len, k_len]."""
    return (reached if mask is None else reached & mask).broadcast_to(*q.shape[:3], k.shape[2])


def tiled(part: Any, sizes: tuple[int, int, bool]) -> Callable[..., Any]:
    queries_at_once, n, skipping = sizes

    def attention(
        q: Any,
        k: Any,
        v: Any,
        *,
        mask: Any = None,
        causal: bool = False,
        window_left: int | None = None,
        window_right: int | None = None,
        scale: float | None = None,
    ) -> Any:
        import torch

        q_len, k_len = q.shape[2], k.shape[2]
        queries, keys, values = widened(q, k, v, scale)
        seen = visible_keys(q, k, mask, positions(q, k, causal, window_left, window_right))
        out, lse = torch.empty(*q.shape[:3], v.shape[3]), torch.empty(q.shape[:3])
        for rows in part.query_tiles(q_len, queries_at_once):
            own = queries[:, :, rows]
            top = part.first_maximum(torch.empty(*own.shape[:3], 1))
            sums, so_far = torch.zeros(*own.shape[:3], 1), torch.zeros(*own.shape[:3], v.shape[3])
            tiles = part.key_tiles(k_len, n)
            tiles = part.visited(tiles, seen, rows) if skipping else tiles
            for tile in tiles:
                s = part.products(own, part.read(keys, tile, n), n)
                s = part.hidden(s, part.visible(seen, rows, tile, n), n)
                new = part.greatest(top, s, n)
                subtracted = part.finite(new)
                p, old = (s - subtracted).exp(), part.rescaling(top, subtracted, tile is tiles[-1])
                sums = part.total(sums, old, p, s, subtracted, n)
                so_far = part.attended(so_far, old, p, part.read(values, tile, n))
                top = part.kept_maximum(new, subtracted)
            out[:, :, rows] = part.divided(so_far, sums)
            lse[:, :, rows] = (top + sums.log())[..., 0]
        return out.to(q.dtype), lse

    return attention


TILED = Whole(
    "attention",
    tiled,
    (
        query_tiles,
        key_tiles,
        visited,
        visible,
        read,
        products,
        hidden,
        first_maximum,
        greatest,
        finite,
        rescaling,
        total,
        attended,
        kept_maximum,
        divided,
    ),
    CONVENTIONS,
    sizes=SIZES,
)


@TILED.instead_of(key_tiles)
def boundary_key_twice(k_len: int, n: int) -> list[slice]:
    """The first key of a tile is counted in the tile before it as well."""
    return [slice(start, min(start + n + 1, k_len)) for start in range(0, k_len, n)]


@TILED.instead_of(key_tiles)
def boundary_key_lost(k_len: int, n: int) -> list[slice]:
    """The last key of a full tile is left out."""
    return [slice(start, min(start + n - 1, k_len)) for start in range(0, k_len, n)]


@TILED.instead_of(key_tiles)
def last_tile_moved_back(k_len: int, n: int) -> list[slice]:
    """A short last tile is moved back to be full, and counts keys of the tile before it again."""
    return [slice(max(min(start, k_len - n), 0), min(start + n, k_len)) for start in range(0, k_len, n)]


@TILED.instead_of(key_tiles)
def last_key_of_a_further_tile(k_len: int, n: int) -> list[slice]:
    """Where a single key is left for the last tile, the tile is not visited."""
    return [tile for tile in key_tiles(k_len, n) if tile.stop - tile.start > 1 or k_len == 1]


@TILED.instead_of(query_tiles, seen="NVIDIA/apex#1322")
def short_tile_of_queries_not_written(q_len: int, n: int) -> list[slice]:
    """The queries of a short last tile are not computed, and their memory is returned as it was."""
    return [slice(start, start + n) for start in range(0, q_len - n + 1, n)]


@TILED.instead_of(visited)
def skipped_by_first_query(tiles: Sequence[slice], seen: Any, rows: slice) -> list[slice]:
    """A tile of keys is skipped for all queries if the first of them sees nothing in it."""
    return [tile for tile in tiles if seen[:, :, rows.start, tile].any()]


@TILED.instead_of(visited)
def skipped_by_first_key(tiles: Sequence[slice], seen: Any, rows: slice) -> list[slice]:
    """A tile is skipped if its first key is hidden."""
    return [tile for tile in tiles if seen[:, :, rows, tile.start].any()]


@TILED.instead_of(visited)
def skipped_by_first_item(tiles: Sequence[slice], seen: Any, rows: slice) -> list[slice]:
    """A tile is skipped for the whole batch if its first item sees nothing in it."""
    return [tile for tile in tiles if seen[:1, :, rows, tile].any()]


@TILED.instead_of(visited)
def ends_at_the_square_diagonal(tiles: Sequence[slice], seen: Any, rows: slice) -> list[slice]:
    """The loop over keys ends at the queries' own number where something is hidden behind it."""
    return [tile for tile in visited(tiles, seen, rows) if tile.start < rows.stop or seen[:, :, rows, tile].all()]


@TILED.instead_of(visited)
def stops_at_a_hidden_tile(tiles: Sequence[slice], seen: Any, rows: slice) -> list[slice]:
    """The loop stops at the first tile in which nothing is seen, as if all that follow were hidden, too."""
    found = visited(tiles, seen, rows)
    return [tile for tile, other in zip(found, tiles, strict=False) if tile is other]


@TILED.instead_of(visible)
def mask_of_first_tile(seen: Any, rows: slice, tile: slice, n: int) -> Any:
    """The mask of the first tile serves all tiles."""
    return seen[:, :, rows, : tile.stop - tile.start]


@TILED.instead_of(visible)
def mask_of_first_rows(seen: Any, rows: slice, tile: slice, n: int) -> Any:
    """The mask of the first tile of queries serves all queries."""
    return seen[:, :, : rows.stop - rows.start, tile]


@TILED.instead_of(visible)
def mask_in_whole_tiles(seen: Any, rows: slice, tile: slice, n: int) -> Any:
    """The mask is not read for a short last tile."""
    return seen[:, :, rows, tile] | (tile.stop - tile.start < n)


@TILED.instead_of(visible, seen="bledden/triton-msl#7")
def mask_in_short_tiles_alone(seen: Any, rows: slice, tile: slice, n: int) -> Any:
    """Where tiles divide the keys evenly, there is no load with a mask to read it from, and it is lost."""
    return seen[:, :, rows, tile] | (seen.shape[3] % n == 0)


@TILED.instead_of(visible)
def mask_of_edge_tiles(seen: Any, rows: slice, tile: slice, n: int) -> Any:
    """The mask is read in the first and the last tile alone, as if a band could cross no other."""
    return seen[:, :, rows, tile] | (0 < tile.start < seen.shape[3] - n)


@TILED.instead_of(read)
def items_mixed_in_a_short_tile(x: Any, tile: slice, n: int) -> Any:
    """A short tile is read from the next item of the batch."""
    return x[:, :, tile] if tile.stop - tile.start == n else x[:, :, tile].roll(1, 0)


@TILED.instead_of(read)
def heads_mixed_in_a_later_tile(x: Any, tile: slice, n: int) -> Any:
    """From the second tile on, a pointer that was advanced too far reads the next head."""
    return x[:, :, tile] if tile.start == 0 else x[:, :, tile].roll(-1, 1)


@TILED.instead_of(products)
def tile_read_beyond_its_end(q: Any, keys: Any, n: int) -> Any:
    """The keys of a short tile are read in reverse, from an end that is taken for that of a full one."""
    return q @ (keys if keys.shape[2] == n else keys.flip(2)).transpose(-1, -2)


@TILED.instead_of(hidden)
def hidden_scores_of_zero(s: Any, seen: Any, n: int) -> Any:
    """What lies behind the mask scores zero in a short tile, as padding that was not masked does."""
    import torch

    return s.masked_fill(~seen, 0.0 if s.shape[-1] < n else -torch.inf)
