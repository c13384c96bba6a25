"""Keys and values written to slots of paged caches, token by token.

Kwon et al. 2023, Efficient memory management for large language model serving with PagedAttention, arXiv:2309.06180,
section 4.3: slot s is place s % page_size of page s // page_size.
"""

import numpy as np

from .attention import codes_of


def cache_write(k, v, key_cache, value_cache, slots, k_scale=None, v_scale=None):
    """The caches [pages, page_size, kv_heads, dim] with k and v [tokens, kv_heads, dim] at slots [tokens], -1 for none.

    Where there are scales the caches hold codes in float8_e4m3fn.
    """
    fitting(k, v, key_cache, value_cache, slots)
    keys, values, size = key_cache.copy(), value_cache.copy(), key_cache.shape[1]
    for t, slot in enumerate(slots):
        if slot >= 0:
            keys[slot // size, slot % size] = codes_of(k[t], k_scale)
            values[slot // size, slot % size] = codes_of(v[t], v_scale)
    return {"keys": keys, "values": values}


def scaled_cache_write(k, v, key_cache, value_cache, key_scales, value_scales, slots):
    """Caches of integers, with scales [pages, page_size, kv_heads] that make the largest size of each head 127."""
    fitting(k, v, key_cache, value_cache, slots)
    found = {name: x.copy() for name, x in (("keys", key_cache), ("values", value_cache))}
    found |= {"new_key_scales": key_scales.copy(), "new_value_scales": value_scales.copy()}
    size = key_cache.shape[1]
    for t, slot in enumerate(slots):
        for codes, scales, x in (("keys", "new_key_scales", k[t]), ("values", "new_value_scales", v[t])):
            if slot >= 0:
                step = np.abs(x).max(-1) / 127
                found[codes][slot // size, slot % size] = np.rint(x / step[:, None])
                found[scales][slot // size, slot % size] = step
    return found


def fitting(k, v, key_cache, value_cache, slots):
    pages, size = key_cache.shape[:2]
    heads = (k.shape[1:], v.shape[1:]) == (key_cache.shape[2:], value_cache.shape[2:])
    if not heads or not len(k) == len(v) == len(slots) or np.any(slots >= pages * size):
        raise ValueError("keys and values as wide as their caches, and a slot inside them for each token")


def latent_cache_write(latent, k_rope, rows, slots):
    """The cache [pages, page_size, rank + rope_dim] with the latents [tokens, rank] and rotary keys behind them."""
    if latent.shape[1] + k_rope.shape[1] != rows.shape[2]:
        raise ValueError("a latent and a rotary key together are as wide as the cache")
    found, size = rows.copy(), rows.shape[1]
    for t, slot in enumerate(slots):
        if slot >= 0:
            found[slot // size, slot % size] = [*latent[t], *k_rope[t]]
    return found
