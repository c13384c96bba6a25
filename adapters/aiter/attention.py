"""The attention of AITER, on AMD devices, which torch calls cuda as well.

Source: https://github.com/ROCm/aiter (aiter/ops/mha.py), installed from there; `aiter` on the package index is another.
Interface and conventions are those of flash-attn; only the function of pages has a cap.
"""

# Where the package is not installed, its name is taken for that of this folder.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from ..torch.packed import cumulative

declared = functools.partial(
    adapter,
    dtypes=("float16", "bfloat16"),
    conventions={"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"},
    limits={"head_dim": range(8, 257, 8)},
    requires="value_dim == head_dim",
    devices=("cuda",),
    package="aiter.ops.mha",
)


def window(left: int | None, right: int | None) -> tuple[int, int]:
    """The sides of a window, -1 for one that is not bounded."""
    return -1 if left is None else left, -1 if right is None else right


@declared("attention")
def aiter_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """flash_attn_func of aiter."""
    from aiter import flash_attn_func

    out, lse = flash_attn_func(
        *(x.transpose(1, 2) for x in (q, k, v)),
        softmax_scale=scale,
        causal=causal,
        window_size=window(window_left, window_right),
        return_lse=True,
    )
    return {"out": out.transpose(1, 2), "lse": lse}


@declared("attention_gradient")
def aiter_attention_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Gradients of flash_attn_func of aiter."""
    attend = partial(aiter_attention, causal=causal, scale=scale, window_left=window_left, window_right=window_right)
    return differentiated(attend, d_out, q=q, k=k, v=v)


@declared("packed_attention")
def aiter_varlen(
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
) -> Any:
    """flash_attn_varlen_func of aiter."""
    from aiter import flash_attn_varlen_func

    out, lse = flash_attn_varlen_func(
        q,
        k,
        v,
        *(cumulative(lens).int() for lens in (q_lens, k_lens)),
        *(int(lens.max()) for lens in (q_lens, k_lens)),
        softmax_scale=scale,
        causal=causal,
        window_size=window(window_left, window_right),
        return_lse=True,
    )
    return {"out": out, "lse": lse}


@declared("paged_attention", conventions={"empty_row": "zeros", "grouping": "block"})
def aiter_paged(
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
    """mha_batch_prefill_func of aiter, whose pages are of one token: each is handed over by its place in the pool."""
    import torch
    from aiter import mha_batch_prefill_func

    (batch, length), size = q.shape[:2], key_pages.shape[1]
    lens, token = k_lens.long(), torch.arange(table.shape[1] * size, device=q.device)
    slots = table.long().repeat_interleave(size, 1) * size + token % size
    starts = cumulative(torch.full_like(k_lens, length)).int()
    out, lse = mha_batch_prefill_func(
        q.flatten(0, 1),
        *(pages.flatten(0, 1) for pages in (key_pages, value_pages)),
        starts,
        cumulative(k_lens).int(),
        slots[token < lens[:, None]].int(),
        length,
        int(k_lens.max()),
        softmax_scale=scale,
        logits_soft_cap=softcap or 0.0,
        causal=True,
        window_size=window(window_left, None),
        return_lse=True,
    )
    return {"out": out.unflatten(0, (batch, length)), "lse": lse.unflatten(1, (batch, length)).transpose(0, 1)}
