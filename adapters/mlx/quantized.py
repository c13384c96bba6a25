"""Attention over a quantized cache of mlx-lm.

Source: https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/models/base.py, quantized_scaled_dot_product_attention
Codes are whole numbers from 0 on in integers of 32 bits, of 32 channels with a scale and an offset; codes from -128 on
are therefore 128 greater here, with an offset of as many scales, and channels are filled up to whole groups.
It multiplies the queries that it is given in place, so that it is given a copy.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

GROUP = 32
"""The channels that share a scale."""
CODES: dict[str, Any] = {"kv_dtype": ("int8",)}
ALONG_CHANNELS: dict[str, Any] = {"key_groups": ("key_channels",), "value_groups": ("value_channels",)}


@adapter(
    "attention",
    framework="mlx",
    dtypes=("float32",),
    conventions={"causal_alignment": "bottom_right", "grouping": "block"},
    grade={"float32": "tf32"},  # of codes and offset, which cancel, the rounding is left
    limits=CODES,
    requires=(
        "size(k_scale, -1) == 1 and size(v_scale, -1) == 1",
        "not causal or single(mask)",
        "size(mask, 1) == 1",
    ),
    package="mlx_lm",
    extra="mlx-lm",
)
def mlx_lm_quantized_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    kv_dtype: str,
    scale_block: int | None = None,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """quantized_scaled_dot_product_attention with codes of eight bits."""
    import mlx.core as mx
    from mlx_lm.models.base import quantized_scaled_dot_product_attention

    factor = q.shape[-1] ** -0.5 if scale is None else scale
    queries = mx.pad(q, [(0, 0)] * 3 + [(0, -q.shape[-1] % GROUP)])
    keys, values = (affine(x, s, scale_block) for x, s in ((k, k_scale), (v, v_scale)))
    added = "causal" if causal else mask
    out = quantized_scaled_dot_product_attention(queries, keys, values, factor, added, group_size=GROUP, bits=8)
    return out[..., : v.shape[-1]]


def affine(codes: Any, scale: Any, block: int | None) -> tuple[Any, Any, Any]:
    """Codes from -128 to 127 with a scale for each token, as MLX packs them: codes, scales and offsets."""
    import mlx.core as mx

    if block is not None and scale.shape[-2] > 1:
        scale = mx.repeat(scale, block, -2)[:, :, : codes.shape[2]]
    filled = mx.pad(codes.astype(mx.int32) + 128, [(0, 0)] * 3 + [(0, -codes.shape[-1] % GROUP)], constant_values=128)
    packed = mx.contiguous(filled.astype(mx.uint8)).view(mx.uint32)
    scales = mx.contiguous(mx.broadcast_to(scale, (*codes.shape[:3], filled.shape[-1] // GROUP)))
    return packed, scales, -128.0 * scales


@adapter(
    "cached_attention",
    framework="mlx",
    dtypes=("float32",),
    conventions={"grouping": "block", "own_chunk": "as_kept", "zero_point": "whole_steps"},
    grade={"float32": "tf32"},  # as above
    limits={"group_size": (32, 64), **ALONG_CHANNELS},
    fixed={"residual_length": 0},
    requires="value_dim == head_dim or kv_heads == heads",
    package="mlx_lm",
    extra="mlx-lm",
)
def mlx_lm_quantized_cache(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    group_size: int,
    key_groups: str = "channels",
    value_groups: str = "channels",
    cache_bits: int = 8,
    scale: float | None = None,
) -> Any:
    """QuantizedKVCache, whose codes a chunk reads of itself as well, before quantized_scaled_dot_product_attention."""
    import mlx.core as mx
    from mlx_lm.models.base import quantized_scaled_dot_product_attention
    from mlx_lm.models.cache import QuantizedKVCache

    cache, outs, start = QuantizedKVCache(group_size, cache_bits), [], 0
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    for n in chunks:
        part = slice(start, start + n)
        keys, values = cache.update_and_fetch(k[:, :, part], v[:, :, part])
        queries = mx.array(q[:, :, part])
        attend = quantized_scaled_dot_product_attention
        outs.append(attend(queries, keys, values, factor, "causal", group_size=group_size, bits=cache_bits))
        start += n
    return mx.concatenate(outs, 2)
