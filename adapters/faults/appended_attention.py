"""New tokens that go into a cache in the call that reads them, and what goes wrong with tiles, rows and other calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from ..controls.positions import by_exponentials, halves, joined
from .packed import merged
from .whole import Whole

FLOAT32 = ("float32",)
TILE = 16
"""Places that are read at a time."""


def lengths(k_lens: Any, added: int) -> list[int]:
    """The places of the first new token of each item."""
    return k_lens.tolist()


def row_of(rows: Any, item: int, cache: Any) -> int:
    """The row of an item."""
    return item if rows is None else int(rows[item])


def kept(cache: Any) -> Any:
    """A cache that may be written to."""
    return cache.clone()


def turned(x: Any, start: int, base: float, width: int, interleaved: bool, readers: int) -> Any:
    """Tokens [length, heads, dim] turned by their positions, where so many queries read each of them."""
    import torch

    return by_angles(x, torch.arange(start, start + len(x), dtype=torch.float32), base, width, interleaved)


def by_angles(x: Any, positions: Any, base: float, width: int, interleaved: bool) -> Any:
    """Tokens turned by given positions."""
    angle = positions[:, None, None] * by_exponentials(base, width)
    first, second = halves(x.float(), width, interleaved)
    both = first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()
    return joined(*both, x.float()[..., width:], interleaved).to(x.dtype)


def written(row: Any, new: Any, start: int) -> None:
    """Write new tokens to the places behind those of a row."""
    row[start : start + len(new)] = new


def tiles(start: int, end: int) -> list[tuple[int, int]]:
    """The first place of each tile and the one behind its last, of which a row has so many in use."""
    return [(first, min(first + TILE, end)) for first in range(0, end, TILE)]


def read(row: Any, before: Any, tile: tuple[int, int], start: int, end: int) -> Any:
    """What a tile of a row has, which had something else before the call."""
    return row[slice(*tile)]


def appending(part: Any) -> Callable[..., Any]:
    def appended_attention(
        q: Any,
        k: Any,
        v: Any,
        key_cache: Any,
        value_cache: Any,
        k_lens: Any,
        rows: Any = None,
        *,
        scale: float | None = None,
        window_left: int | None = None,
        base: float | None = None,
        interleaved: bool = False,
        rotary_dim: int | None = None,
    ) -> Any:
        import torch

        out, length = v.new_empty(*q.shape[:3], v.shape[3]), q.shape[1]
        keys, values = part.kept(key_cache), part.kept(value_cache)
        for item, start in enumerate(part.lengths(k_lens, length)):
            own, new, end, row = q[item], k[item], start + length, part.row_of(rows, item, key_cache)
            if base is not None:
                pairs = (base, rotary_dim or q.shape[3], interleaved)
                own = part.turned(own, start, *pairs, 1)
                new = part.turned(new, start, *pairs, q.shape[2] // k.shape[2])
            part.written(keys[row], new, start)
            part.written(values[row], v[item], start)
            found = []
            for tile in part.tiles(start, end):
                back = torch.arange(start, end)[:, None] - torch.arange(*tile)
                seen = (back >= 0) & (back <= (end if window_left is None else window_left))
                pairs = ((keys, key_cache), (values, value_cache))
                held = (part.read(now[row], was[row], tile, start, end).transpose(0, 1)[None] for now, was in pairs)
                found.append(online(own.transpose(0, 1)[None], *held, mask=seen, scale=scale))
            out[item] = part.merged(found)[0].transpose(0, 1)
        return {"out": out, "keys": keys, "values": values}

    return appended_attention


APPENDING = Whole(
    "appended_attention",
    appending,
    (lengths, row_of, kept, turned, written, tiles, read, merged),
    {"masked_nonfinite": "ignored", "grouping": "block"},
)

_calls: dict[tuple[Any, ...], Any] = {}


@APPENDING.instead_of(lengths)
def lengths_of_an_earlier_call(k_lens: Any, added: int) -> list[int]:
    """The lengths are those of the first call of as many items and tokens, as in a graph that is replayed."""
    return _calls.setdefault(("lengths", len(k_lens), added), lengths(k_lens, added))


@APPENDING.instead_of(lengths)
def lengths_advanced_in_place(k_lens: Any, added: int) -> list[int]:
    """The lengths of the caller are advanced by the new tokens."""
    found = lengths(k_lens, added)
    k_lens += added
    return found


@APPENDING.instead_of(row_of, dtypes=FLOAT32, seen="Dao-AILab/flash-attention#772")
def row_offsets_in_sixteen_bits(rows: Any, item: int, cache: Any) -> int:
    """The offset of a row is kept in sixteen bits, and one that does not fit is that of the first row."""
    row = row_of(rows, item, cache)
    return row if row * cache[0].numel() < 2**15 else 0


@APPENDING.instead_of(kept, dtypes=FLOAT32)
def rows_by_plain_strides(cache: Any) -> Any:
    """The cache is taken to lie row by row and place by place, whatever its strides are."""
    import math

    own = cache.clone()
    return own.as_strided(own.shape, [math.prod(own.shape[axis + 1 :]) for axis in range(own.dim())])


@APPENDING.instead_of(kept)
def cache_of_an_earlier_call(cache: Any) -> Any:
    """Tokens go to the cache of the first call of that shape, as in a graph that is replayed."""
    return _calls.setdefault((*cache.shape, str(cache.dtype)), cache.clone())


@APPENDING.instead_of(turned)
def turned_for_every_reader(x: Any, start: int, base: float, width: int, interleaved: bool, readers: int) -> Any:
    """Each query head that reads a key turns it in place, so that keys are turned as often as there are readers."""
    for _ in range(readers):
        x = turned(x, start, base, width, interleaved, 1)
    return x


@APPENDING.instead_of(turned)
def places_in_bfloat16(x: Any, start: int, base: float, width: int, interleaved: bool, readers: int) -> Any:
    """Positions are rounded to bfloat16, which has no odd ones beyond 256."""
    import torch

    positions = torch.arange(start, start + len(x)).to(torch.bfloat16).float()
    return by_angles(x, positions, base, width, interleaved)


@APPENDING.instead_of(turned)
def table_of_512_places(x: Any, start: int, base: float, width: int, interleaved: bool, readers: int) -> Any:
    """Sines and cosines come from a table of 512 positions, and later tokens have its last ones."""
    import torch

    positions = torch.arange(start, start + len(x), dtype=torch.float32).clamp_max(511)
    return by_angles(x, positions, base, width, interleaved)


@APPENDING.instead_of(written, seen="Dao-AILab/flash-attention#638")
def whole_vectors_written(row: Any, new: Any, start: int) -> None:
    """Tokens are written in vectors of four, and the last vector overwrites what lies behind the new tokens."""
    rest = min(-len(new) % 4, len(row) - start - len(new))
    written(row, new, start)
    row[start + len(new) : start + len(new) + rest] = new[-1]


@APPENDING.instead_of(written)
def tile_written_from_registers(row: Any, new: Any, start: int) -> None:
    """The tile of the first new token is written as a whole, though the tokens before it were not loaded."""
    row[start // TILE * TILE : start] = 0
    written(row, new, start)


@APPENDING.instead_of(read)
def tile_read_before_it_is_written(row: Any, before: Any, tile: tuple[int, int], start: int, end: int) -> Any:
    """A tile that begins before the new tokens is read before these are written."""
    return (before if tile[0] < start else row)[slice(*tile)]


@APPENDING.instead_of(read)
def new_tokens_of_the_last_tile_alone(row: Any, before: Any, tile: tuple[int, int], start: int, end: int) -> Any:
    """The split of the last tile writes the new tokens, and the other splits do not wait for it."""
    return (row if tile[1] == end else before)[slice(*tile)]


@APPENDING.instead_of(tiles)
def tiles_of_the_old_length(start: int, end: int) -> list[tuple[int, int]]:
    """As many tiles are read as the tokens before the call have."""
    return tiles(start, end)[: max(-(-start // TILE), 1)]


@APPENDING.instead_of(tiles)
def new_tokens_read_twice(start: int, end: int) -> list[tuple[int, int]]:
    """New tokens are read from the cache, and once more from where they came."""
    return [*tiles(start, end), (start, end)]
