"""Right, but different: turned keys that are written into a cache, in ways none of which any law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import DTYPES
from .positions import by_exponentials, halves, joined


def coded(x: Any, scale: Any, dtype: Any) -> Any:
    """Numbers in the dtype of a cache, or their codes by a scale."""
    return x.to(dtype) if scale is None else (x.float() / scale).clamp(-448, 448).to(dtype)


def fitting(q: Any, k: Any, v: Any, cache: Any) -> None:
    """Refuse heads that are not as wide as those of the cache."""
    if not q.shape[2] == k.shape[2] == v.shape[2] == cache.shape[3]:
        raise ValueError("queries, keys and values are as wide as the cache")


@adapter("rotary_cache", dtypes=DTYPES)
def control_cache_by_complex_numbers(
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
    """All heads beside each other as complex numbers, and all slots at once; codes of numbers that are not rounded."""
    import torch

    fitting(q, k, v, key_cache)
    x, width = torch.cat((q, k), 1).float(), rotary_dim or q.shape[2]
    first, second = halves(x, width, interleaved)
    angle = positions.float()[:, None, None] * by_exponentials(base, width)
    turned = torch.complex(first.contiguous(), second.contiguous()) * torch.polar(torch.ones_like(angle), angle)
    out = joined(turned.real, turned.imag, x[..., width:], interleaved)
    turned_keys, found, kept = out[:, q.shape[1] :], [], slots >= 0
    for cache, new, scale in ((key_cache, turned_keys, k_scale), (value_cache, v, v_scale)):
        flat = cache.reshape(-1, *cache.shape[2:]).clone()
        flat[slots[kept]] = coded(new[kept], scale, cache.dtype)
        found.append(flat.reshape(cache.shape))
    heads = {"q_out": out[:, : q.shape[1]].to(q.dtype), "k_out": turned_keys.to(k.dtype)}
    return {**heads, "keys": found[0], "values": found[1]}


@adapter("rotary_cache", dtypes=DTYPES)
def control_cache_token_by_token(
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
    """The last token first, in double precision, by pages and places; codes of keys that are rounded to their dtype."""
    import torch

    fitting(q, k, v, key_cache)
    width, size = rotary_dim or q.shape[2], key_cache.shape[1]
    frequency = by_exponentials(base, width).double()
    keys, values = key_cache.clone(), value_cache.clone()
    q_out, k_out = q.clone(), k.clone()
    for token in reversed(range(len(q))):
        angle = positions[token].double() * frequency
        for x in (q_out, k_out):
            own = x[token].double()
            first, second = halves(own, width, interleaved)
            turned = first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()
            x[token] = joined(*turned, own[..., width:], interleaved).to(x.dtype)
        slot = int(slots[token])
        if slot >= 0:
            keys[slot // size, slot % size] = coded(k_out[token], k_scale, keys.dtype)
            values[slot // size, slot % size] = coded(v[token], v_scale, values.dtype)
        else:
            k_out[token] = torch.nan
    return {"q_out": q_out, "keys": keys, "values": values, "k_out": k_out}
