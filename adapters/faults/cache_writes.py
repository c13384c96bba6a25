"""Keys and values that are written to slots of caches as kernels do, and what goes wrong with offsets and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.cache_writes import fitting, steps
from ..controls.rotary_cache import coded
from .whole import Whole

GROUP = 8


def offsets(cache: Any, slots: Any) -> Any:
    """Where in the memory of a cache, in which entries lie one after the other, each slot begins."""
    width = cache.shape[2] * cache.shape[3]
    return slots * width


def rows(new: Any) -> Any:
    """What is written of each token [tokens, heads * dim]."""
    return new.reshape(len(new), -1)


def copied(memory: Any, at: Any, row: Any) -> None:
    """Write a row to memory."""
    memory[at : at + len(row)] = row


def writing(part: Any) -> Callable[..., Any]:
    def cache_write(
        k: Any, v: Any, key_cache: Any, value_cache: Any, slots: Any, k_scale: Any = None, v_scale: Any = None
    ) -> Any:
        fitting(k, v, key_cache, value_cache, slots)
        found = []
        for cache, new, scale in ((key_cache, k, k_scale), (value_cache, v, v_scale)):
            memory = cache.contiguous().clone().reshape(-1)
            codes, starts = part.rows(coded(new, scale, cache.dtype)), part.offsets(cache, slots)
            for token, slot in enumerate(slots.tolist()):
                if slot >= 0:
                    part.copied(memory, int(starts[token]), codes[token])
            found.append(memory.reshape(cache.shape))
        return {"keys": found[0], "values": found[1]}

    return cache_write


WRITES = Whole("cache_write", writing, (offsets, rows, copied))


@WRITES.instead_of(offsets)
def offsets_in_a_byte_of_pages(cache: Any, slots: Any) -> Any:
    """The place in a page is kept in seven bits with a sign."""
    size = cache.shape[1]
    place = slots % size % 128
    return (slots // size * size + place) * (cache.shape[2] * cache.shape[3])


@WRITES.instead_of(rows, seen="flashinfer-ai/flashinfer#527")
def strides_taken_for_shapes(new: Any) -> Any:
    """The memory of keys and values is read as if it had no gaps and its axes were in order."""
    return new.as_strided((len(new), new.shape[1] * new.shape[2]), (new.shape[1] * new.shape[2], 1))


@WRITES.instead_of(copied)
def whole_groups_of_eight(memory: Any, at: Any, row: Any) -> None:
    """Eight entries are written at a time, and the last group goes on behind the row."""
    import torch

    size = (len(row) + GROUP - 1) // GROUP * GROUP
    end = min(at + size, len(memory))
    wide = torch.zeros(size, dtype=torch.float32)
    wide[: len(row)] = row.float()
    memory[at:end] = wide[: end - at].to(memory.dtype)


_staging: dict[int, Any] = {}


@WRITES.instead_of(rows)
def rows_of_an_earlier_call(new: Any) -> Any:
    """Rows go through a buffer that is filled by the first call of its size alone."""
    return _staging.setdefault(new.numel(), rows(new).clone()).reshape(len(new), -1).to(new.dtype)


def measured(x: Any) -> Any:
    """The scales of tokens and heads."""
    return steps(x)


def rounded(ratio: Any) -> Any:
    """Codes of quotients."""
    return ratio.round().clamp(-127, 127)


def scaling(part: Any) -> Callable[..., Any]:
    def scaled_cache_write(
        k: Any, v: Any, key_cache: Any, value_cache: Any, key_scales: Any, value_scales: Any, slots: Any
    ) -> Any:
        import torch

        fitting(k, v, key_cache, value_cache, slots)
        outs, kept = [], slots >= 0
        for cache, scales, x in ((key_cache, key_scales, k), (value_cache, value_scales, v)):
            step = part.measured(x)
            codes = part.rounded(x.float() / step[..., None]).to(torch.int8)
            for old, new in ((cache, codes), (scales, step)):
                flat = old.reshape(-1, *old.shape[2:]).clone()
                flat[slots[kept]] = new[kept]
                outs.append(flat.reshape(old.shape))
        return {"keys": outs[0], "new_key_scales": outs[1], "values": outs[2], "new_value_scales": outs[3]}

    return scaled_cache_write


SCALING = Whole("scaled_cache_write", scaling, (measured, rounded))


@SCALING.instead_of(measured)
def scales_in_half_precision(x: Any) -> Any:
    """Scales are rounded to half precision, and those of large numbers are infinite."""
    return steps(x).half().float()


@SCALING.instead_of(rounded)
def codes_that_wrap(ratio: Any) -> Any:
    """Codes are rounded away from zero, so that 127 becomes 128 and wraps."""
    import torch

    return torch.where(ratio > 126.9, -128.0, rounded(ratio))


def joined(latent: Any, k_rope: Any) -> Any:
    """What is written of each token [tokens, rank + rope_dim]."""
    import torch

    return torch.cat((latent, k_rope), 1)


def pools(rows: Any) -> Any:
    """The cache that is written to."""
    return rows.clone()


def joining(part: Any) -> Callable[..., Any]:
    def latent_cache_write(latent: Any, k_rope: Any, rows: Any, slots: Any) -> Any:
        pool, new, size = part.pools(rows), part.joined(latent, k_rope), rows.shape[1]
        for token, slot in enumerate(slots.tolist()):
            if slot >= 0:
                pool[slot // size, slot % size] = new[token]
        return pool.clone()

    return latent_cache_write


LATENTS = Whole("latent_cache_write", joining, (joined, pools))
_pools: dict[tuple[Any, ...], Any] = {}


@LATENTS.instead_of(joined)
def strides_of_latents_for_keys(latent: Any, k_rope: Any) -> Any:
    """The memory of rotary keys is read as if it had no gaps."""
    return joined(latent, k_rope.as_strided(k_rope.shape, (k_rope.shape[1], 1)))


@LATENTS.instead_of(pools)
def latents_of_an_earlier_cache(rows: Any) -> Any:
    """What is new is written into the cache of the first call of that shape, as in a graph that is replayed."""
    return _pools.setdefault((*rows.shape, str(rows.dtype)), rows.clone())
