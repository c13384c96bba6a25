"""The packed and the paged attention of flash-attn, on CUDA devices.

Documentation: https://github.com/Dao-AILab/flash-attention (flash_attn_varlen_func, flash_attn_with_kvcache)
Packed items are told by the running sums of their lengths, from zero on; pages have a multiple of 256 slots.
Causal masks and windows are as in `flash_attention`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import Unsupported, adapter
from ..torch.gradients import differentiated
from ..torch.packed import cumulative


@adapter(
    "packed_attention",
    requires="value_dim == head_dim",
    dtypes=("float16", "bfloat16"),
    conventions={"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"},
    limits={"head_dim": range(1, 257)},
    devices=("cuda",),
    package="flash_attn",
    extra="flash-attn",
)
def flash_attention_varlen(
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
    """flash_attn_varlen_func of flash-attn."""
    from flash_attn import flash_attn_varlen_func

    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    out, lse, _ = flash_attn_varlen_func(
        q,
        k,
        v,
        *(cumulative(lens).int() for lens in (q_lens, k_lens)),
        *(int(lens.max()) for lens in (q_lens, k_lens)),
        softmax_scale=scale,
        causal=causal,
        window_size=tuple(-1 if side is None else side for side in (window_left, window_right)),
        softcap=0.0 if softcap is None else softcap,
        return_attn_probs=True,
    )
    return {"out": out, "lse": lse}


@adapter(
    "packed_attention_gradient",
    requires="value_dim == head_dim",
    dtypes=("float16", "bfloat16"),
    conventions={"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"},
    limits={"head_dim": range(1, 257)},
    devices=("cuda",),
    package="flash_attn",
    extra="flash-attn",
)
def flash_attention_varlen_gradient(
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
    """Gradients of flash_attn_varlen_func of flash-attn."""
    given = {"window_left": window_left, "window_right": window_right, "softcap": softcap}
    attend = partial(flash_attention_varlen, q_lens=q_lens, k_lens=k_lens, causal=causal, scale=scale, **given)
    return differentiated(attend, d_out, q=q, k=k, v=v)


@adapter(
    "paged_attention",
    requires="value_dim == head_dim",
    dtypes=("float16", "bfloat16"),
    conventions={"empty_row": "zeros", "grouping": "block"},
    limits={"head_dim": range(1, 257), "page_size": range(256, 4097, 256)},
    devices=("cuda",),
    package="flash_attn",
    extra="flash-attn",
)
def flash_attention_paged(
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
    """flash_attn_with_kvcache of flash-attn, with a block_table."""
    from flash_attn import flash_attn_with_kvcache

    if value_pages.shape != key_pages.shape:
        raise Unsupported("values have the shape of the keys")
    return flash_attn_with_kvcache(
        q,
        key_pages,
        value_pages,
        cache_seqlens=k_lens.int(),
        block_table=table.int(),
        softmax_scale=scale,
        causal=True,
        window_size=(-1 if window_left is None else window_left, -1),
        softcap=0.0 if softcap is None else softcap,
    )
