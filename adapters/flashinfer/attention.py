"""The attention of FlashInfer, on CUDA devices, by its choice of kernels and by name.

Documentation: https://docs.flashinfer.ai/generated/flashinfer.prefill.single_prefill_with_kv_cache.html
It takes one item of a batch, [length, heads, head_dim], and returns a logsumexp to base two; the causal mask is aligned
at the last key, and a mask is one for all heads. A window is one to the left, and unbounded at -1.
Packed items are planned by the running sums of their lengths, from zero on, in a workspace of 128 MiB:
https://docs.flashinfer.ai/api/attention.html (BatchPrefillWithRaggedKVCacheWrapper).
Pages are planned by those of all items one behind the other, and how full the last page of each is.
Of the kernels, fa3 needs compute capability 9.0, cutlass and trtllm-gen 10.0.
"""

# Where the package is not installed, its name is taken for that of this folder.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from collections.abc import Callable
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
QUERIES: dict[str, Any] = {
    "conventions": {"causal_alignment": "bottom_right", "grouping": "block", "lse_base": "two"},
    "limits": {"head_dim": (64, 128, 256)},
}
PAGES: dict[str, Any] = {
    "conventions": {"grouping": "block", "lse_base": "two"},
    "limits": {"head_dim": (64, 128, 256)},
}
DECODING: dict[str, Any] = {**PAGES, "limits": {**PAGES["limits"], "q_len": (1,)}}
OPEN = -1
"""A window that is not bounded."""


def named(kind: str, backend: str) -> str:
    """The name of an adapter: that of FlashInfer's own choice has no ending."""
    return f"flashinfer_{kind}" if backend == "auto" else f"flashinfer_{kind}_{backend.replace('-', '_')}"


def workspace(like: Any) -> Any:
    """Memory for plans."""
    import torch

    return torch.empty(1 << 27, dtype=torch.uint8, device=like.device)


def planned(table: Any, k_lens: Any, page_size: int) -> tuple[Any, Any, Any]:
    """Where the pages of items begin, the pages of all items, and how full the last one of each is."""
    import torch

    if bool((k_lens == 0).any()):
        raise Unsupported("every item has a last page")
    counts = (k_lens + page_size - 1) // page_size
    own = torch.arange(table.shape[1], device=table.device) < counts[:, None]
    return cumulative(counts).int(), table[own].int(), ((k_lens - 1) % page_size + 1).int()


def single(backend: str) -> Callable[..., Any]:
    """single_prefill_with_kv_cache by a choice of kernels."""

    @declared("attention", name=named("prefill", backend), **QUERIES)
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
                window_left=OPEN if window_left is None else window_left,
                logits_soft_cap=softcap,
                backend=backend,
                return_lse=True,
            )
            for item in range(q.shape[0])
        ]
        out, lse = (torch.stack(parts) for parts in zip(*found, strict=True))
        return {"out": out.transpose(1, 2), "lse": lse.transpose(1, 2)}

    return flashinfer_prefill


def ragged(backend: str) -> Callable[..., Any]:
    """BatchPrefillWithRaggedKVCacheWrapper by a choice of kernels."""

    @declared("packed_attention", name=named("ragged", backend), **QUERIES)
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
        from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

        wrapper = BatchPrefillWithRaggedKVCacheWrapper(workspace(q), "NHD", backend=backend)
        wrapper.plan(
            cumulative(q_lens).int(),
            cumulative(k_lens).int(),
            q.shape[1],
            k.shape[1],
            q.shape[2],
            causal=causal,
            sm_scale=scale,
            window_left=OPEN if window_left is None else window_left,
            logits_soft_cap=softcap,
            q_data_type=q.dtype,
        )
        out, lse = wrapper.run(q, k, v, return_lse=True)
        return {"out": out, "lse": lse.T}

    return flashinfer_ragged


def paged(backend: str) -> Callable[..., Any]:
    """BatchPrefillWithPagedKVCacheWrapper by a choice of kernels."""

    @declared("paged_attention", name=named("paged", backend), **PAGES)
    def flashinfer_paged(
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
        """BatchPrefillWithPagedKVCacheWrapper of flashinfer."""
        import torch
        from flashinfer import BatchPrefillWithPagedKVCacheWrapper

        (batch, q_len, heads, head_dim), page_size = q.shape, key_pages.shape[1]
        wrapper = BatchPrefillWithPagedKVCacheWrapper(workspace(q), "NHD", backend=backend)
        wrapper.plan(
            torch.arange(0, batch * q_len + 1, q_len, dtype=torch.int32, device=q.device),
            *planned(table, k_lens, page_size),
            heads,
            key_pages.shape[2],
            head_dim,
            page_size,
            causal=True,
            sm_scale=scale,
            window_left=OPEN if window_left is None else window_left,
            logits_soft_cap=softcap,
            q_data_type=q.dtype,
        )
        out, lse = wrapper.run(q.flatten(0, 1), (key_pages, value_pages), return_lse=True)
        return {"out": out.unflatten(0, (batch, q_len)), "lse": lse.unflatten(0, (batch, q_len)).transpose(1, 2)}

    return flashinfer_paged


def decode(backend: str) -> Callable[..., Any]:
    """BatchDecodeWithPagedKVCacheWrapper by a choice of kernels."""

    @declared("paged_attention", name=named("paged_decode", backend), **DECODING)
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
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper

        page_size = key_pages.shape[1]
        wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace(q), "NHD", backend=backend)
        wrapper.plan(
            *planned(table, k_lens, page_size),
            q.shape[2],
            key_pages.shape[2],
            q.shape[3],
            page_size,
            sm_scale=scale,
            window_left=OPEN if window_left is None else window_left,
            logits_soft_cap=softcap,
            q_data_type=q.dtype,
        )
        out, lse = wrapper.run(q[:, 0], (key_pages, value_pages), return_lse=True)
        return {"out": out[:, None], "lse": lse[..., None]}

    return flashinfer_paged_decode


for choice in ("auto", "fa2", "fa3"):
    single(choice)
    paged(choice)
for choice in ("auto", "fa2", "fa3", "cutlass"):
    ragged(choice)
for choice in ("auto", "fa2", "trtllm-gen"):
    decode(choice)


@adapter(
    "merge_states",
    dtypes=("float16", "bfloat16", "float32"),
    conventions={"lse_base": "two"},
    limits={"states": (2,)},
    devices=("cuda",),
    package="flashinfer",
    extra="flashinfer",
)
def flashinfer_merge_state(outs: Any, lses: Any) -> Any:
    """merge_state of flashinfer, of two states."""
    from flashinfer import merge_state

    out, lse = merge_state(outs[0], lses[0].float(), outs[1], lses[1].float())
    return {"out": out, "lse": lse}


@adapter(
    "merge_states",
    dtypes=("float16", "bfloat16", "float32"),
    conventions={"lse_base": "two"},
    layout="tnhd",
    devices=("cuda",),
    package="flashinfer",
    extra="flashinfer",
)
def flashinfer_merge_states(outs: Any, lses: Any) -> Any:
    """merge_states of flashinfer, of any number."""
    from flashinfer import merge_states

    out, lse = merge_states(outs, lses.float())
    return {"out": out, "lse": lse}
