"""FlashAttention 3, on CUDA devices of compute capability 9.0, such as an H100.

Source: https://github.com/Dao-AILab/flash-attention (hopper/flash_attn_interface.py), installed from there.
Interface and conventions are those of flash-attn; values may have a size of their own, and pages any number of slots.
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
    limits={"head_dim": range(8, 257, 8)},
    requires="value_dim == head_dim",
    devices=("cuda",),
    package="flash_attn_interface",
)
OPEN = -1
"""A side of a window that is not bounded."""


def window(left: int | None, right: int | None) -> tuple[int, int]:
    """The sides of a window."""
    return OPEN if left is None else left, OPEN if right is None else right


@declared("attention")
def flash_attention_3(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """flash_attn_func of FlashAttention 3."""
    from flash_attn_interface import flash_attn_func

    out, lse = flash_attn_func(
        *(x.transpose(1, 2) for x in (q, k, v)),
        softmax_scale=scale,
        causal=causal,
        window_size=window(window_left, window_right),
        softcap=softcap or 0.0,
        return_attn_probs=True,
    )
    return {"out": out.transpose(1, 2), "lse": lse}


@declared("attention_gradient")
def flash_attention_3_gradient(
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
    """Gradients of flash_attn_func of FlashAttention 3."""
    given = {"window_left": window_left, "window_right": window_right, "softcap": softcap}
    attend = partial(flash_attention_3, causal=causal, scale=scale, **given)
    return differentiated(attend, d_out, q=q, k=k, v=v)


@declared("packed_attention")
def flash_attention_3_varlen(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """flash_attn_varlen_func of FlashAttention 3."""
    from flash_attn_interface import flash_attn_varlen_func

    out, lse = flash_attn_varlen_func(
        q,
        k,
        v,
        *(cumulative(lens).int() for lens in (q_lens, k_lens)),
        *(int(lens.max()) for lens in (q_lens, k_lens)),
        softmax_scale=scale,
        causal=causal,
        window_size=window(window_left, window_right),
        softcap=softcap or 0.0,
        return_attn_probs=True,
    )
    return {"out": out, "lse": lse}


@declared("packed_attention_gradient")
def flash_attention_3_varlen_gradient(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Gradients of flash_attn_varlen_func of FlashAttention 3."""
    given = {"window_left": window_left, "window_right": window_right, "softcap": softcap}
    attend = partial(flash_attention_3_varlen, q_lens=q_lens, k_lens=k_lens, causal=causal, scale=scale, **given)
    return differentiated(attend, d_out, q=q, k=k, v=v)


@declared("paged_attention", conventions={"empty_row": "zeros", "grouping": "block"})
def flash_attention_3_paged(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """flash_attn_with_kvcache of FlashAttention 3, with a page_table."""
    from flash_attn_interface import flash_attn_with_kvcache

    out, lse, *_ = flash_attn_with_kvcache(
        q,
        key_pages,
        value_pages,
        cache_seqlens=k_lens.int(),
        page_table=table.int(),
        softmax_scale=scale,
        causal=True,
        window_size=window(window_left, None),
        softcap=softcap or 0.0,
        return_softmax_lse=True,
    )
    return {"out": out, "lse": lse}


@declared("cached_attention", conventions={"grouping": "block"})
def flash_attention_3_cached(
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
    """flash_attn_with_kvcache of FlashAttention 3, which writes the keys and values of a chunk into the cache."""
    from flash_attn_interface import flash_attn_with_kvcache

    attend = partial(flash_attn_with_kvcache, softmax_scale=scale, causal=True, window_size=window(window_left, None))
    return in_chunks(attend, q, k, v, chunks, capacity, kept)
