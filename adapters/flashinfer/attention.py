"""The attention of FlashInfer over one request, on CUDA devices.

Documentation: https://docs.flashinfer.ai/generated/flashinfer.prefill.single_prefill_with_kv_cache.html
It takes one item of a batch, [length, heads, head_dim], and returns a logsumexp to base two; the causal mask is aligned
at the last key, and a mask is one for all heads. A window is one to the left, and unbounded at -1.
Packed items are planned by the running sums of their lengths, from zero on, in a workspace of 128 MiB:
https://docs.flashinfer.ai/api/attention.html (BatchPrefillWithRaggedKVCacheWrapper).
Decoding over pages is planned by the pages of all items one behind the other, and how full the last page of each is.
"""

# Where the package is not installed, its name is taken for that of this folder.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter
from ..torch.packed import cumulative

declared = functools.partial(
    adapter,
    requires="value_dim == head_dim",
    dtypes=("float16", "bfloat16"),
    devices=("cuda",),
    package="flashinfer",
    extra="flashinfer",
)


@declared(
    "attention",
    conventions={"causal_alignment": "bottom_right", "grouping": "block", "lse_base": "two"},
    limits={"head_dim": (64, 128, 256)},
)
def flashinfer_prefill(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """single_prefill_with_kv_cache of flashinfer."""
    import torch
    from flashinfer import single_prefill_with_kv_cache

    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    whole = None
    if mask is not None:
        whole = mask.reshape(*(1,) * (4 - mask.ndim), *mask.shape)
        if causal or whole.shape[1] != 1:
            raise Unsupported("a mask is one for all heads, and takes the place of the causal one")
        whole = whole[:, 0].expand(q.shape[0], q.shape[2], k.shape[2])
    found = [
        single_prefill_with_kv_cache(
            *(x[item].transpose(0, 1).contiguous() for x in (q, k, v)),
            custom_mask=None if whole is None else whole[item].contiguous(),
            causal=causal,
            sm_scale=scale,
            window_left=-1 if window_left is None else window_left,
            logits_soft_cap=softcap,
            return_lse=True,
        )
        for item in range(q.shape[0])
    ]
    out, lse = (torch.stack(parts) for parts in zip(*found, strict=True))
    return {"out": out.transpose(1, 2), "lse": lse.transpose(1, 2)}


@declared(
    "packed_attention",
    conventions={"causal_alignment": "bottom_right", "grouping": "block", "lse_base": "two"},
    limits={"head_dim": (64, 128, 256)},
)
def flashinfer_ragged(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """BatchPrefillWithRaggedKVCacheWrapper of flashinfer."""
    import torch
    from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(torch.empty(1 << 27, dtype=torch.uint8, device=q.device), "NHD")
    wrapper.plan(
        cumulative(q_lens).int(),
        cumulative(k_lens).int(),
        q.shape[1],
        k.shape[1],
        q.shape[2],
        causal=causal,
        sm_scale=scale,
        window_left=-1 if window_left is None else window_left,
        logits_soft_cap=softcap,
        q_data_type=q.dtype,
    )
    out, lse = wrapper.run(q, k, v, return_lse=True)
    return {"out": out, "lse": lse.T}


@declared("paged_attention", conventions={"grouping": "block"}, limits={"head_dim": (64, 128, 256), "q_len": (1,)})
def flashinfer_paged_decode(
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
    """BatchDecodeWithPagedKVCacheWrapper of flashinfer."""
    import torch
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    if value_pages.shape != key_pages.shape:
        raise Unsupported("values have the shape of the keys")
    if bool((k_lens == 0).any()):
        raise Unsupported("every item has a last page")
    page_size = key_pages.shape[1]
    counts = (k_lens + page_size - 1) // page_size
    own = torch.arange(table.shape[1], device=q.device) < counts[:, None]
    wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(1 << 27, dtype=torch.uint8, device=q.device), "NHD")
    wrapper.plan(
        cumulative(counts).int(),
        table[own].int(),
        ((k_lens - 1) % page_size + 1).int(),
        q.shape[2],
        key_pages.shape[2],
        q.shape[3],
        page_size,
        sm_scale=scale,
        window_left=-1 if window_left is None else window_left,
        logits_soft_cap=softcap,
        q_data_type=q.dtype,
    )
    return wrapper.run(q[:, 0], (key_pages, value_pages))[:, None]
