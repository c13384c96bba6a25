"""FlashAttention 4, on CUDA devices of compute capability 9.0 and 10.0, such as an H100 and a B200.

Source: https://pypi.org/project/flash-attn-4 (flash_attn.cute); pip install --pre flash-attn-4
Conventions are those of flash-attn; a side of a window that is not bounded is None, and heads may have a sink.
There is no flash_attn_with_kvcache: a cache and pages are handed to flash_attn_varlen_func with their `seqused_k`.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from ..torch.packed import cumulative
from .cache import in_chunks

declared = functools.partial(
    adapter,
    dtypes=("float16", "bfloat16"),
    conventions={"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"},
    limits={"head_dim": range(8, 129, 8), "value_dim": range(8, 129, 8)},
    devices=("cuda",),
    package="flash_attn.cute",
)


@declared("attention")
def flash_attention_4(
    q: Any,
    k: Any,
    v: Any,
    *,
    sink: Any = None,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """flash_attn_func of FlashAttention 4."""
    from flash_attn.cute import flash_attn_func

    out, lse = flash_attn_func(
        *(x.transpose(1, 2) for x in (q, k, v)),
        softmax_scale=scale,
        causal=causal,
        window_size=(window_left, window_right),
        learnable_sink=sink,
        softcap=softcap or 0.0,
        return_lse=True,
    )
    return {"out": out.transpose(1, 2), "lse": lse}


@declared("attention_gradient")
def flash_attention_4_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Gradients of flash_attn_func of FlashAttention 4."""
    given = {"window_left": window_left, "window_right": window_right, "softcap": softcap}
    attend = partial(flash_attention_4, causal=causal, scale=scale, **given)
    return differentiated(attend, d_out, q=q, k=k, v=v)


@declared("packed_attention")
def flash_attention_4_varlen(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    sink: Any = None,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """flash_attn_varlen_func of FlashAttention 4."""
    from flash_attn.cute import flash_attn_varlen_func

    out, lse = flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=cumulative(q_lens).int(),
        cu_seqlens_k=cumulative(k_lens).int(),
        max_seqlen_q=int(q_lens.max()),
        max_seqlen_k=int(k_lens.max()),
        softmax_scale=scale,
        causal=causal,
        window_size=(window_left, window_right),
        learnable_sink=sink,
        softcap=softcap or 0.0,
        return_lse=True,
    )
    return {"out": out, "lse": lse}


@declared("packed_attention_gradient")
def flash_attention_4_varlen_gradient(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    sink: Any = None,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Gradients of flash_attn_varlen_func of FlashAttention 4."""
    given = {"window_left": window_left, "window_right": window_right, "softcap": softcap}
    attend = partial(flash_attention_4_varlen, q_lens=q_lens, k_lens=k_lens, causal=causal, scale=scale, **given)
    return differentiated(attend, d_out, q=q, k=k, v=v, sink=sink)


@declared("paged_attention", conventions={"empty_row": "zeros", "grouping": "block"})
def flash_attention_4_paged(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    sink: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """flash_attn_varlen_func of FlashAttention 4 with a page_table, for compute capability 10.0."""
    from flash_attn.cute import flash_attn_varlen_func

    out, lse = flash_attn_varlen_func(
        q,
        key_pages,
        value_pages,
        seqused_k=k_lens.int(),
        page_table=table.int(),
        softmax_scale=scale,
        causal=True,
        window_size=(window_left, None),
        learnable_sink=sink,
        softcap=softcap or 0.0,
        return_lse=True,
    )
    return {"out": out, "lse": lse}


@declared("cached_attention", conventions={"grouping": "block"})
def flash_attention_4_cached(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    kept: Any = None,
    capacity: int | None = None,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """flash_attn_varlen_func of FlashAttention 4 on a cache that torch writes."""
    attend = partial(_written, softmax_scale=scale, causal=True, window_size=(window_left, None))
    return in_chunks(attend, q, k, v, chunks, capacity, kept)


def _written(q: Any, keys: Any, values: Any, *, k: Any, v: Any, cache_seqlens: Any, **options: Any) -> Any:
    """The output for a chunk, whose keys and values are first written behind those that the cache has."""
    import torch
    from flash_attn.cute import flash_attn_varlen_func

    items = torch.arange(len(k), device=k.device)[:, None]
    places = cache_seqlens.long()[:, None] + torch.arange(k.shape[1], device=k.device)
    keys[items, places], values[items, places] = k, v
    return flash_attn_varlen_func(q, keys, values, seqused_k=cache_seqlens + k.shape[1], **options)[0]
