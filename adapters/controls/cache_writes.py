"""Right, but different: keys and values that are written to slots of caches, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import DTYPES
from .rotary_cache import coded


def fitting(k: Any, v: Any, key_cache: Any, value_cache: Any, slots: Any) -> None:
    """Refuse keys and values that are not as wide as their caches."""
    heads = (k.shape[1:], v.shape[1:]) == (key_cache.shape[2:], value_cache.shape[2:])
    if not heads or not len(k) == len(v) == len(slots):
        raise ValueError("keys and values are as wide as their caches, and each has a slot")


@adapter("cache_write", dtypes=DTYPES)
def control_writes_at_once(
    k: Any, v: Any, key_cache: Any, value_cache: Any, slots: Any, k_scale: Any = None, v_scale: Any = None
) -> Any:
    """The slots of all tokens at once."""
    fitting(k, v, key_cache, value_cache, slots)
    found, kept = [], slots >= 0
    for cache, new, scale in ((key_cache, k, k_scale), (value_cache, v, v_scale)):
        flat = cache.reshape(-1, *cache.shape[2:]).clone()
        flat[slots[kept]] = coded(new[kept], scale, cache.dtype)
        found.append(flat.reshape(cache.shape))
    return {"keys": found[0], "values": found[1]}


@adapter("cache_write", dtypes=DTYPES, layout="heads_first")
def control_writes_to_heads(
    k: Any, v: Any, key_cache: Any, value_cache: Any, slots: Any, k_scale: Any = None, v_scale: Any = None
) -> Any:
    """The last token first, by pages, heads and places."""
    if not len(k) == len(v) == len(slots):
        raise ValueError("each key and value has a slot")
    keys, values, size = key_cache.clone(), value_cache.clone(), key_cache.shape[2]
    for token in reversed(range(len(slots))):
        page, place = divmod(int(slots[token]), size)
        if page >= 0:
            keys[page, :, place] = coded(k[token], k_scale, keys.dtype)
            values[page, :, place] = coded(v[token], v_scale, values.dtype)
    return {"keys": keys, "values": values}


def steps(x: Any) -> Any:
    """The scales of tokens and heads, by which the largest size of each becomes 127."""
    return x.float().abs().amax(-1) / 127


@adapter("scaled_cache_write", dtypes=DTYPES)
def control_scaled_writes_at_once(
    k: Any, v: Any, key_cache: Any, value_cache: Any, key_scales: Any, value_scales: Any, slots: Any
) -> Any:
    """The slots of all tokens at once, with quotients."""
    import torch

    fitting(k, v, key_cache, value_cache, slots)
    kept, outs = slots >= 0, []
    for cache, scales, x in ((key_cache, key_scales, k), (value_cache, value_scales, v)):
        step = steps(x)
        codes = (x.float() / step[..., None]).round().clamp(-127, 127).to(torch.int8)
        for old, new in ((cache, codes), (scales, step)):
            flat = old.reshape(-1, *old.shape[2:]).clone()
            flat[slots[kept]] = new[kept]
            outs.append(flat.reshape(old.shape))
    return {"keys": outs[0], "new_key_scales": outs[1], "values": outs[2], "new_value_scales": outs[3]}


@adapter("scaled_cache_write", framework="numpy", dtypes=("float32",))
def control_scaled_writes_by_heads(
    k: Any, v: Any, key_cache: Any, value_cache: Any, key_scales: Any, value_scales: Any, slots: Any
) -> Any:
    """Head by head, with products by the reciprocal of the scale, rounded by adding a half."""
    import numpy as np

    fitting(k, v, key_cache, value_cache, slots)
    outs = [x.copy() for x in (key_cache, value_cache, key_scales, value_scales)]
    size = key_cache.shape[1]
    for token, slot in enumerate(slots):
        for head in range(k.shape[1] if slot >= 0 else 0):
            at = (slot // size, slot % size, head)
            for codes, scales, x in ((outs[0], outs[2], k[token, head]), (outs[1], outs[3], v[token, head])):
                scales[at] = np.abs(x).max() / np.float32(127)
                ratio = x * (np.float32(1) / scales[at])
                codes[at] = np.clip(np.trunc(ratio + np.copysign(np.float32(0.5), ratio)), -128, 127)
    return dict(zip(("keys", "values", "new_key_scales", "new_value_scales"), outs, strict=True))


@adapter("latent_cache_write", dtypes=DTYPES)
def control_latents_at_once(latent: Any, k_rope: Any, rows: Any, slots: Any) -> Any:
    """Both parts joined, and the slots of all tokens at once."""
    import torch

    flat, kept = rows.reshape(-1, rows.shape[2]).clone(), slots >= 0
    flat[slots[kept]] = torch.cat((latent, k_rope), 1)[kept]
    return flat.reshape(rows.shape)


@adapter("latent_cache_write", dtypes=DTYPES)
def control_latents_by_parts(latent: Any, k_rope: Any, rows: Any, slots: Any) -> Any:
    """The last token first, each part by itself."""
    if latent.shape[1] + k_rope.shape[1] != rows.shape[2]:
        raise ValueError("a latent and a rotary key together are as wide as the cache")
    found, size, rank = rows.clone(), rows.shape[1], latent.shape[1]
    for token in reversed(range(len(slots))):
        page, place = divmod(int(slots[token]), size)
        if page >= 0:
            found[page, place, :rank] = latent[token]
            found[page, place, rank:] = k_rope[token]
    return found
