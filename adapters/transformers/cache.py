"""The caches of Hugging Face transformers, filled and read as its models do.

Documentation: https://huggingface.co/docs/transformers/kv_cache
A layer makes the mask of its chunk (transformers.masking_utils), stores keys and values (transformers.cache_utils) and
hands what the cache returns to scaled dot-product attention (transformers.integrations.sdpa_attention).
A model makes the mask before anything is stored, and so does `session`.
Masks are those of keys, [batch, length], as tokenizers return them; a window counts the token itself.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
CONVENTIONS = {"grouping": "block"}


def configuration(window: int | None) -> Any:
    """A configuration of one layer, as a cache and the makers of masks read it."""
    import transformers

    made: Any = transformers.MistralConfig
    return made(num_hidden_layers=1, sliding_window=window, attn_implementation="sdpa")


def of_keys(mask: Any, batch: int) -> Any:
    """A mask as tokenizers return it: [batch, length], integers."""
    if mask is None:
        return None
    if mask.ndim != 4 or bool((mask != mask[:, :1, :1]).any()):
        raise Unsupported("a mask hides keys, for all heads and queries alike")
    return mask[:, 0, 0].expand(batch, -1).long()


def session(
    cache: Any,
    config: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    chunks: tuple[int, ...],
    beams: Any,
    scale: float | None,
    kept: Any = None,
) -> Any:
    """All chunks through one cache, which is cropped to what is kept: [batch, heads, length, value_dim]."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

    create = create_causal_mask if config.sliding_window is None else create_sliding_window_causal_mask
    layer: Any = SimpleNamespace(num_key_value_groups=q.shape[1] // max(k.shape[1], 1), training=False, is_causal=True)
    keys_seen = of_keys(mask, q.shape[0])
    outs, start, filled = [], 0, 0
    for c, n in enumerate(chunks):
        part = slice(start, start + n)
        added = create(
            config,
            q[:, 0, part],
            None if keys_seen is None else keys_seen[:, : filled + n],
            cache,
            position_ids=torch.arange(filled, filled + n, device=q.device)[None].expand(q.shape[0], -1),
        )
        keys, values = cache.update(k[:, :, part], v[:, :, part], 0)
        out, _ = sdpa_attention_forward(layer, q[:, :, part], keys, values, added, scaling=scale)
        outs.append(out.transpose(1, 2))
        if start == 0 and beams is not None:
            cache.reorder_cache(torch.tensor(beams, device=q.device))
        own = n if kept is None else int(kept[0, c])
        start, filled = start + n, filled + own
        if kept is not None:
            cache.crop(own - n)
    return torch.cat(outs, 2)


def _declared(*requires: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter(
        "cached_attention",
        dtypes=DTYPES,
        conventions=CONVENTIONS,
        requires=requires,
        package="transformers",
        extra="transformers",
    )


@_declared()
def transformers_dynamic_cache(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    mask: Any = None,
    window_left: int | None = None,
    beams: tuple[int, ...] | None = None,
    scale: float | None = None,
) -> Any:
    """DynamicCache, which grows with every chunk."""
    from transformers import DynamicCache

    config = configuration(None if window_left is None else window_left + 1)
    return session(DynamicCache(config=config), config, q, k, v, mask, chunks, beams, scale)


@_declared()
def transformers_static_cache(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    mask: Any = None,
    capacity: int | None = None,
    window_left: int | None = None,
    beams: tuple[int, ...] | None = None,
    scale: float | None = None,
) -> Any:
    """StaticCache, of a capacity that is given beforehand."""
    from transformers import StaticCache

    config = configuration(None if window_left is None else window_left + 1)
    room = q.shape[2] if capacity is None else capacity
    return session(StaticCache(config=config, max_cache_len=room), config, q, k, v, mask, chunks, beams, scale)


@_declared("all(kept == kept[:1])")
def transformers_cropped_cache(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    kept: Any,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """DynamicCache as speculative decoding has it: it is cropped behind each chunk, for all items alike."""
    from transformers import DynamicCache

    if bool((kept != kept[:1]).any()):
        raise Unsupported("all items are cropped to one length")
    config = configuration(None if window_left is None else window_left + 1)
    cache: Any = DynamicCache(config=config)
    cache.activate_past_recording()
    return session(cache, config, q, k, v, None, chunks, None, scale, kept)


@adapter(
    "cached_attention",
    dtypes=DTYPES[:3],
    conventions={**CONVENTIONS, "own_chunk": "first_as_fed"},
    requires="cache_dtype == e4m3",
    package="transformers",
    extra="transformers",
)
def transformers_float8_cache(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    cache_dtype: str,
    beams: tuple[int, ...] | None = None,
    scale: float | None = None,
) -> Any:
    """QuantizedCache of the backend fp8, whose scale is made of the first chunk."""
    from transformers import QuantizedCache

    if cache_dtype != "float8_e4m3fn":
        raise Unsupported("the backend fp8 keeps float8_e4m3fn")
    config = configuration(None)
    return session(QuantizedCache("fp8", config), config, q, k, v, None, chunks, beams, scale)


@adapter(
    "cached_attention",
    dtypes=("float32", "bfloat16", "float16"),
    conventions={**CONVENTIONS, "own_chunk": "as_fed", "residual": "emptied", "zero_point": "least_number"},
    grade={
        "bfloat16": "bf16_naive",
        "float16": "fp16_naive",
    },  # codes and what they represent are computed in the dtype
    limits={"cache_bits": (4, 2)},
    requires=(
        "key_groups == key_channels and value_groups == value_channels or residual_length > 0",
        "key_groups == key_channels and value_groups == value_channels or chunks[0] % group_size == 0",
        "key_groups == key_channels and value_groups == value_channels or all(chunks[1:] == 1)",
    ),
    package="optimum.quanto",
    extra="quanto",
)
def transformers_quanto_cache(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    group_size: int,
    key_groups: str = "channels",
    value_groups: str = "channels",
    residual_length: int = 0,
    cache_bits: int = 4,
    beams: tuple[int, ...] | None = None,
    scale: float | None = None,
) -> Any:
    """QuantizedCache of the backend quanto, whose groups along tokens are counted through all heads and items.

    Its axis 0 is grouped along channels, and its axis -1 along tokens: an axis is what groups do not run along.
    """
    from transformers import QuantizedCache

    config, axes = configuration(None), {"channels": 0, "tokens": -1}
    cache = QuantizedCache(
        "quanto", config, cache_bits, axes[key_groups], axes[value_groups], group_size, residual_length
    )
    return session(cache, config, q, k, v, None, chunks, beams, scale)
