"""How vLLM writes keys and values to slots of its cache, in Triton.

Source: https://github.com/vllm-project/vllm (vllm/v1/attention/ops/triton_reshape_and_cache_flash.py)
Keys and values of a token lie one after the other; the kernel takes the strides of the keys' cache for those of both.
"""

from __future__ import annotations

from typing import Any

from ..triton.interpreter import declared
from .modules import cache_writer


def checked(k: Any, v: Any, key_cache: Any, value_cache: Any) -> None:
    """Refuse what the kernels, which look at the keys alone, would read or write out of place."""
    if k.shape[1:] != key_cache.shape[2:] or v.shape[1:] != value_cache.shape[2:] or len(k) != len(v):
        raise ValueError("keys and values are as wide as their caches")


@declared("cache_write", package="vllm", dtypes=("float32", "bfloat16", "float16"), requires=("head_dim == value_dim",))
def vllm_reshape_and_cache_flash(
    k: Any, v: Any, key_cache: Any, value_cache: Any, slots: Any, k_scale: Any = None, v_scale: Any = None
) -> Any:
    """triton_reshape_and_cache_flash, of numbers and of codes in float8."""
    import torch

    checked(k, v, key_cache, value_cache)
    keys, values = key_cache.contiguous().clone(), value_cache.contiguous().clone()
    one = torch.ones(1, device=k.device)
    scales = (one, one) if k_scale is None else (k_scale, v_scale)
    cache_writer().triton_reshape_and_cache_flash(
        k.contiguous(), v.contiguous(), keys, values, slots.contiguous(), "auto" if k_scale is None else "fp8", *scales
    )
    return {"keys": keys, "values": values}


@declared("scaled_cache_write", package="vllm", dtypes=("float32", "bfloat16", "float16"))
def vllm_reshape_and_cache_by_heads(
    k: Any, v: Any, key_cache: Any, value_cache: Any, key_scales: Any, value_scales: Any, slots: Any
) -> Any:
    """triton_reshape_and_cache_flash_per_token_head_quant, of integers."""
    checked(k, v, key_cache, value_cache)
    caches = [x.clone() for x in (key_cache, value_cache, key_scales, value_scales)]
    writer = cache_writer()
    mode = writer.KVQuantMode.INT8_PER_TOKEN_HEAD
    writer.triton_reshape_and_cache_flash_per_token_head_quant(
        k.contiguous(), v.contiguous(), *caches, slots.contiguous(), mode
    )
    return dict(zip(("keys", "values", "new_key_scales", "new_value_scales"), caches, strict=True))
