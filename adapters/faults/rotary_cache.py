"""Turned keys that are written into a cache, and what goes wrong with their angles, slots and codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.positions import by_exponentials, halves, joined
from ..controls.rotary_cache import coded
from .whole import Whole


def angles(positions: Any, base: float, width: int) -> Any:
    """The angles of tokens [tokens, 1, pairs]."""
    return positions.float()[:, None, None] * by_exponentials(base, width)


def written(cache: Any, new: Any, slots: Any) -> Any:
    """A cache with what is new in its slots."""
    flat = cache.reshape(-1, *cache.shape[2:]).clone()
    flat[slots[slots >= 0]] = new[slots >= 0]
    return flat.reshape(cache.shape)


def codes(x: Any, scale: Any, dtype: Any) -> Any:
    """What a cache holds of numbers."""
    return coded(x, scale, dtype)


def writing(part: Any) -> Callable[..., Any]:
    def rotary_cache(
        q: Any,
        k: Any,
        v: Any,
        key_cache: Any,
        value_cache: Any,
        positions: Any,
        slots: Any,
        k_scale: Any = None,
        v_scale: Any = None,
        *,
        base: float = 10000.0,
        interleaved: bool = False,
        rotary_dim: int | None = None,
    ) -> Any:
        width, outs = rotary_dim or q.shape[2], []
        angle = part.angles(positions, base, width)
        for x in (q, k):
            first, second = halves(x.float(), width, interleaved)
            turned = first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()
            outs.append(joined(*turned, x.float()[..., width:], interleaved).to(x.dtype))
        keys = part.written(key_cache, part.codes(outs[1], k_scale, key_cache.dtype), slots)
        values = part.written(value_cache, part.codes(v, v_scale, value_cache.dtype), slots)
        return {"q_out": outs[0], "keys": keys, "values": values, "k_out": outs[1]}

    return rotary_cache


WRITING = Whole("rotary_cache", writing, (angles, written, codes))

_tables: dict[tuple[int, int], Any] = {}


@WRITING.instead_of(angles)
def kept_angles_of_another_base(positions: Any, base: float, width: int) -> Any:
    """The angles come from a table that is kept by its width, whatever the base is."""
    table = _tables.setdefault((width, 0), by_exponentials(base, width))
    return positions.float()[:, None, None] * table


@WRITING.instead_of(angles)
def angles_in_half_precision(positions: Any, base: float, width: int) -> Any:
    """Angles are rounded to half precision, which leaves little of those of late tokens."""
    return angles(positions, base, width).half().float()


@WRITING.instead_of(written)
def written_to_a_copy(cache: Any, new: Any, slots: Any) -> Any:
    """Pages whose numbers do not lie one after the other are copied first, and what is written to the copy is lost."""
    found = cache.clone()
    flat = found.reshape(-1, *cache.shape[2:])
    flat[slots[slots >= 0]] = new[slots >= 0]
    return found


@WRITING.instead_of(written, seen="ROCm/aiter#5034")
def tokens_in_pairs(cache: Any, new: Any, slots: Any) -> Any:
    """Two tokens are written by one thread, the second behind the first, wherever its slot is."""
    flat = cache.reshape(-1, *cache.shape[2:]).clone()
    for token in range(0, len(slots), 2):
        for row, slot in enumerate((int(slots[token]), int(slots[token]) + 1)):
            if slots[token] >= 0 and token + row < len(slots) and slot < len(flat):
                flat[slot] = new[token + row]
    return flat.reshape(cache.shape)


_pools: dict[tuple[Any, ...], Any] = {}


@WRITING.instead_of(written)
def pool_of_an_earlier_call(cache: Any, new: Any, slots: Any) -> Any:
    """What is new is written into the pool of the first call of that shape, as in a graph that is replayed."""
    pool = _pools.setdefault((*cache.shape, str(cache.dtype)), cache.clone())
    return written(pool, new, slots)


@WRITING.instead_of(codes)
def codes_beyond_the_range_are_nan(x: Any, scale: Any, dtype: Any) -> Any:
    """What lies beyond the range of float8 becomes NaN."""
    import torch

    if scale is None:
        return codes(x, scale, dtype)
    ratio = x.float() / scale
    return torch.where(ratio.abs() > 464, torch.nan, ratio).to(dtype)


@WRITING.instead_of(codes, dtypes=("float32",))
def keys_coded_through_bfloat16(x: Any, scale: Any, dtype: Any) -> Any:
    """Quotients are rounded to bfloat16 and to their codes after that, which moves some of them twice."""
    import torch

    return codes(x, scale, dtype) if scale is None else codes((x.float() / scale).to(torch.bfloat16), 1.0, dtype)
