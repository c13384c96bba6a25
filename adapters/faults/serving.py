"""What goes wrong at the sizes of production alone: tiles, splits and pages that no small case has.

`SHOWN` names the case of the profile `serving` that shows each of them.
"""

from __future__ import annotations

from typing import Any

from .attention import COMPOSED, averaged, factor, loaded, reached, weights
from .cache_writes import WRITES, offsets, rows
from .forgetting import WHOLE, summed
from .latent import OVER_PAGES, held_at
from .norms import SOFTMAX, blocks
from .packed import TILED, keys
from .paged import STRETCHED, first_seen, numbers, read

FLOAT32 = ("float32",)
SHOWN = {
    "scale_of_the_values_at_192": "unlike_head_sizes",
    "channels_beyond_512": "latent",
    "window_of_a_whole_tile": "window_at_an_edge",
    "splits_of_8192_lose_the_rest": "decode",
    "padding_of_the_last_tile": "decode",
    "row_of_the_tail_tile": "prefill",
    "one_row_of_a_thousand": "prefill",
    "first_tile_of_a_chunk": "chunk",
    "keys_beyond_16384": "decode_long",
    "counters_not_set_back": "decode",
    "tile_beyond_the_end": "prefill",
    "pages_over_128": "pages_of_256",
    "pages_counted_in_a_byte": "single_tokens",
    "window_begins_a_page_late": "window_at_an_edge",
    "rope_behind_512_channels": "pages_of_64",
    "splits_beyond_the_eighth": "split_keys",
    "last_tile_of_a_long_item": "decode_unlike",
    "entries_counted_in_16_bits": "vocabulary",
    "gates_of_each_2048_alone": "long",
    "tokens_beyond_a_block": "prefill",
    "slots_in_ten_bits": "pages_of_256",
}


@COMPOSED.instead_of(factor, dtypes=FLOAT32)
def scale_of_the_values_at_192(q: Any, scale: float | None) -> float:
    """At a head size of 192 the default scale is that of values of 128."""
    return 128**-0.5 if scale is None and q.shape[3] == 192 else factor(q, scale)


@COMPOSED.instead_of(averaged, dtypes=FLOAT32)
def channels_beyond_512(p: Any, values: Any, like: Any) -> Any:
    """Where the head size is beyond 512, the last 64 channels of the values are those before them."""
    out = p @ values
    if like.shape[3] > 512:
        out[..., -64:] = out[..., -128:-64]
    return out


@COMPOSED.instead_of(reached, dtypes=FLOAT32)
def window_of_a_whole_tile(q: Any, k: Any, causal: bool, window_left: int | None, window_right: int | None) -> Any:
    """A window of a multiple of 128 positions, from 1024 on, ends one position early."""
    if window_left is not None and window_left >= 1024 and window_left % 128 == 0:
        window_left -= 1
    return reached(q, k, causal, window_left, window_right)


@COMPOSED.instead_of(averaged, dtypes=FLOAT32)
def splits_of_8192_lose_the_rest(p: Any, values: Any, like: Any) -> Any:
    """Beyond 8192 keys a single query takes them in eight splits, and what is left over is lost."""
    n = p.shape[-1]
    whole = n // 8 * 8 if n > 8192 and p.shape[-2] == 1 else n
    return p[..., :whole] @ values[..., :whole, :]


@COMPOSED.instead_of(weights, dtypes=FLOAT32, seen="flashinfer-ai/flashinfer#3716")
def padding_of_the_last_tile(s: Any, seen: Any, like: Any) -> Any:
    """A single query beyond 8192 keys counts the lanes that fill up the last tile of 128, with a score of zero."""
    p = weights(s, seen, like)
    n = s.shape[-1]
    if n <= 8192 or s.shape[-2] > 1:
        return p
    lanes = -n % 128
    share = lanes * (-s.logsumexp(-1, keepdim=True)).exp()
    return p / (1 + share)


@COMPOSED.instead_of(averaged, dtypes=FLOAT32)
def row_of_the_tail_tile(p: Any, values: Any, like: Any) -> Any:
    """From 1024 queries on, the first row of the last short tile of 128 is the one before it."""
    out, n = p @ values, p.shape[-2]
    if n > 1024 and n % 128:
        out[:, :, n // 128 * 128] = out[:, :, n // 128 * 128 - 1]
    return out


@COMPOSED.instead_of(averaged, dtypes=FLOAT32)
def one_row_of_a_thousand(p: Any, values: Any, like: Any) -> Any:
    """Of more than a thousand queries, one of one head is off by a thousandth."""
    out = p @ values
    if p.shape[-2] > 1000:
        out[0, -1, 777] *= 1.001
    return out


@COMPOSED.instead_of(reached, dtypes=FLOAT32)
def first_tile_of_a_chunk(q: Any, k: Any, causal: bool, window_left: int | None, window_right: int | None) -> Any:
    """Behind a history of 4096 keys, the second tile of a chunk does not see the first sixteen of them."""
    found = reached(q, k, causal, window_left, window_right)
    if q.shape[2] > 128 and k.shape[2] > 4096:
        found = found.clone()
        found[128:, :16] = False
    return found


@COMPOSED.instead_of(averaged, dtypes=FLOAT32)
def keys_beyond_16384(p: Any, values: Any, like: Any) -> Any:
    """The number of a key is kept in fourteen bits, and later keys have the values of the first ones."""
    import torch

    return p @ values[:, :, torch.arange(p.shape[-1]) % 16384]


_ARRIVED = dict[tuple[int, ...], int]()
"""How many splits have been written, by the sizes of a call."""


@COMPOSED.instead_of(averaged, dtypes=FLOAT32)
def counters_not_set_back(p: Any, values: Any, like: Any) -> Any:
    """Beyond 8192 keys the split that is the last by a counter adds up all eight, and calls do not set it back."""
    n, sizes = p.shape[-1], (*p.shape, values.shape[-1])
    if n <= 8192:
        return p @ values
    _ARRIVED[sizes] = _ARRIVED.get(sizes, 0) + 8
    there = n if _ARRIVED[sizes] == 8 else n // 8
    return p[..., :there] @ values[..., :there, :]


@COMPOSED.instead_of(loaded, dtypes=FLOAT32)
def tile_beyond_the_end(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Where there is memory behind the values, what stands there is read as well, with a weight of zero."""
    import torch

    memory = torch.empty(0, dtype=v.dtype).set_(v.untyped_storage())
    end = v.storage_offset() + v.numel()
    dense = v.is_contiguous() and v.numel() > 2**12
    q, k, v = loaded(q, k, v)
    return q, k, v + 0 * memory[end : end + 64].float().sum() if dense else v


@STRETCHED.instead_of(read, dtypes=FLOAT32, seen="flashinfer-ai/flashinfer#4347")
def pages_over_128(pool: Any, numbers: Any, count: int) -> Any:
    """Of pages over 128 tokens the first 128 are read twice."""
    import torch

    size = pool.shape[1]
    place = torch.arange(size) % 128 if size > 128 else torch.arange(size)
    return read(pool[:, place], numbers, count)


@STRETCHED.instead_of(numbers, dtypes=FLOAT32)
def pages_counted_in_a_byte(table: Any, item: int) -> Any:
    """From a thousand pages on, a page beyond the 1024th of an item is that of the first."""
    own = numbers(table, item)
    if len(own) > 1024:
        own = own.clone()
        own[1024:] = own[: len(own) - 1024]
    return own


@STRETCHED.instead_of(first_seen, dtypes=FLOAT32)
def window_begins_a_page_late(row: int, window: int | None, page_size: int) -> int:
    """In windows of more than 512 tokens the first page that is seen in part is left out."""
    first = first_seen(row, window, page_size)
    return first + (first > 0) if window is not None and window > 512 else first


@STRETCHED.instead_of(numbers, dtypes=FLOAT32)
def splits_beyond_the_eighth(table: Any, item: int) -> Any:
    """Beyond 8192 tokens in pages of 64, the last page is that of the split before."""
    own = numbers(table, item)
    if len(own) == 129:
        own = own.clone()
        own[128] = own[112]
    return own


@TILED.instead_of(keys, dtypes=FLOAT32)
def last_tile_of_a_long_item(starts: list[int], item: int, split: int) -> list[slice]:
    """Of an item of more than 4096 keys the last stretch, if it is a short one, is left out."""
    found = keys(starts, item, split)
    long = starts[item + 1] - starts[item] > 4096
    return found[:-1] if long and found[-1].stop - found[-1].start < split else found


@OVER_PAGES.instead_of(held_at, dtypes=FLOAT32)
def rope_behind_512_channels(pool: Any, where: Any) -> Any:
    """Of a row that is wider than 512 channels, the rope part is read from the row before."""
    import torch

    found = held_at(pool, where)
    if pool.shape[-1] > 512:
        found = torch.cat([found[:, :512], held_at(pool, where.roll(1))[:, 512:]], -1)
    return found


@SOFTMAX.instead_of(blocks, dtypes=FLOAT32)
def entries_counted_in_16_bits(x: Any) -> list[Any]:
    """Entries of a row from the 65536th on are left out of its sum."""
    return blocks(x[..., :65535])


@WHOLE.instead_of(summed, dtypes=FLOAT32)
def gates_of_each_2048_alone(gate: Any) -> Any:
    """The running sum of the gates begins again with every 2048 tokens."""
    import torch

    return torch.cat([part.cumsum(2) for part in gate.split(2048, 2)], 2)


@WRITES.instead_of(rows, dtypes=FLOAT32)
def tokens_beyond_a_block(new: Any) -> Any:
    """Each token from the 1025th on is written with the row of the one 1024 tokens before."""
    import torch

    return rows(new)[torch.arange(len(new)) % 1024]


@WRITES.instead_of(offsets, dtypes=FLOAT32)
def slots_in_ten_bits(cache: Any, slots: Any) -> Any:
    """In pages of 256 tokens, slots are kept in ten bits."""
    return offsets(cache, slots % 1024 if cache.shape[1] == 256 else slots)
