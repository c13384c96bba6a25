"""Attention of vLLM in Triton: over pages, over packed items, and of partial states.

Source: https://github.com/vllm-project/vllm (vllm/v1/attention/ops)
Queries are among the tokens of their item, whose keys lie in the pages already; a window counts positions to the left.
A window of nothing to one side is taken for none by the attention over packed items.
With a key head for each query head, decode_attention_fwd multiplies queries and keys in their dtype; the attention over
packed items multiplies a sink by the binary logarithm of e in its dtype.
Keys are split for single queries where a threshold on their number of sequences is given.
"""

from __future__ import annotations

import functools
from typing import Any

from ..torch.packed import cumulative
from ..triton.interpreter import TILED, declared
from .modules import module

kernel = functools.partial(declared, dtypes=("float32", "bfloat16", "float16"), package="vllm")
PAGES: dict[str, Any] = {
    "requires": ("value_dim == head_dim", "all(k_lens >= q_len)"),
    "conventions": {"grouping": "block"},
    "on": TILED,
}
SPLITS = 4


def unified(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    scale: float | None,
    window_left: int | None,
    softcap: float | None,
    causal: bool = True,
    scales: tuple[Any, Any] = (None, None),
    dtype: Any = None,
    **more: Any,
) -> Any:
    """unified_attention of queries [batch, q_len, heads, head_dim] over pages, whose codes may have scales."""
    import torch

    batch, q_len, heads, width = q.shape
    out = torch.empty_like(q, dtype=dtype, memory_format=torch.contiguous_format)
    starts = torch.arange(0, batch * q_len + 1, q_len, dtype=torch.int32, device=q.device)
    module("triton_unified_attention").unified_attention(
        q.flatten(0, 1),
        key_pages,
        value_pages,
        out.view(batch * q_len, heads, width),
        starts,
        q_len,
        k_lens.int(),
        int(k_lens.max()),
        width**-0.5 if scale is None else scale,
        causal,
        (-1, -1) if window_left is None else (window_left, 0 if causal else window_left),
        table.int().contiguous(),
        0.0 if softcap is None else softcap,
        None,
        *scales,
        **more,
    )
    return out


@kernel("paged_attention", **PAGES)
def vllm_unified_attention(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    sink: Any = None,
    slopes: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """unified_attention with a program for each item and its keys at once."""
    more = {"sinks": sink, "alibi_slopes": slopes}
    return unified(q, key_pages, value_pages, table, k_lens, scale, window_left, softcap, **more)


@kernel(
    "paged_attention",
    conventions=PAGES["conventions"],
    requires=(
        *PAGES["requires"],
        "window_right == 0 or window_right == window_left",
        "single(spans) or clamp_spans or window_left == none or all(spans[..., 1] - spans[..., 0] <= window_left)",
    ),
)
def vllm_unified_attention_both_ways(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    spans: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = 0,
    clamp_spans: bool = False,
    softcap: float | None = None,
) -> Any:
    """unified_attention without causality, whose window reaches as far to both sides, or with mm_prefix_range.

    vLLM drops spans that are longer than the window, unless they are clamped.
    """
    more: dict[str, Any] = {"causal": window_right == 0}
    if spans is not None:
        more |= {"mm_prefix_range": spans.int(), "mm_prefix_clamp_sliding_window": clamp_spans}
    return unified(q, key_pages, value_pages, table, k_lens, scale, window_left, softcap, **more)


@kernel("paged_attention", **PAGES, limits={"q_len": (1,)}, splits=SPLITS)
def vllm_unified_attention_split(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    sink: Any = None,
    slopes: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """unified_attention of single queries with the keys of an item in four parts."""
    import torch

    batch, _, heads, width = q.shape
    padded = 1 << (width - 1).bit_length()
    shape = (batch, heads, SPLITS)
    more = {
        "sinks": sink,
        "alibi_slopes": slopes,
        "seq_threshold_3D": batch + 1,
        "num_par_softmax_segments": SPLITS,
        "softmax_segm_output": torch.empty(*shape, padded, device=q.device),
        "softmax_segm_max": torch.empty(shape, device=q.device),
        "softmax_segm_expsum": torch.empty(shape, device=q.device),
    }
    return unified(q, key_pages, value_pages, table, k_lens, scale, window_left, softcap, **more)


@kernel(
    "paged_attention",
    conventions=PAGES["conventions"],
    requires=(
        *PAGES["requires"],
        "size(bias, 0) == 1 and size(bias, 1) == 1 and all(k_lens == k_lens[0])",
        "identical(where(range(max_pages * page_size) >= k_lens[0] - q_len, 0, bias), 0 * bias)",
    ),
)
def vllm_unified_attention_of_trees(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    bias: Any,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """unified_attention with qq_bias, which is one for all items and heads and for the chunk alone."""
    count = int(k_lens[0])
    own = bias[0, 0, :, count - q.shape[1] : count].contiguous()
    return unified(q, key_pages, value_pages, table, k_lens, scale, window_left, softcap, qq_bias=own)


@kernel(
    "paged_attention",
    requires="all(k_lens > 0)",
    limits={"q_len": (1,)},
    conventions={"grouping": "block"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    splits=SPLITS,
    on=TILED,
)
def vllm_decode_attention(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """decode_attention_fwd of single queries, with the keys of an item in four parts."""
    import torch

    batch, _, heads, width = q.shape
    value_dim = value_pages.shape[-1]
    out = torch.empty(batch, heads, value_dim, dtype=q.dtype, device=q.device)
    lse = torch.empty(batch, heads, device=q.device)
    module("triton_decode_attention").decode_attention_fwd(
        q[:, 0],
        key_pages,
        value_pages,
        out,
        lse,
        table.int(),
        k_lens.int(),
        torch.empty(batch, heads, SPLITS, value_dim + 1, device=q.device),
        SPLITS,
        width**-0.5 if scale is None else scale,
        key_pages.shape[1],
        logit_cap=0.0 if softcap is None else softcap,
    )
    return {"out": out[:, None], "lse": lse[..., None]}


@kernel(
    "latent_pages",
    requires=("all(k_lens > 0)", "value_dim < width"),
    limits={"q_len": (1,), "heads": range(2, 129)},
    conventions={"lse_base": "natural"},
    splits=SPLITS,
)
def vllm_mla_decode_attention(
    q: Any, rows: Any, table: Any, k_lens: Any, *, value_dim: int, scale: float | None = None
) -> Any:
    """decode_attention_fwd of single queries with one head of keys and is_mla, the rows in four parts."""
    import torch

    batch, _, heads, width = q.shape
    out = torch.empty(batch, heads, value_dim, dtype=q.dtype, device=q.device)
    lse = torch.empty(batch, heads, device=q.device)
    keys = rows[:, :, None]
    module("triton_decode_attention").decode_attention_fwd(
        q[:, 0],
        keys,
        keys[..., :value_dim],
        out,
        lse,
        table.int(),
        k_lens.int(),
        torch.empty(batch, heads, SPLITS, value_dim + 1, device=q.device),
        SPLITS,
        width**-0.5 if scale is None else scale,
        rows.shape[1],
        is_mla=True,
    )
    return {"out": out[:, None], "lse": lse[..., None]}


@kernel(
    "packed_attention",
    requires=(
        "value_dim == head_dim",
        "identical(q_lens, k_lens)",
        "window_left == none or window_left > 0",
        "window_right == none or window_right > 0",
    ),
    grade={"float16": "fp16_naive"},
    conventions={"grouping": "block"},
    on=TILED,
)
def vllm_prefill_attention(
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
) -> Any:
    """context_attention_fwd of items with as many keys as queries."""
    import torch

    out = torch.empty(*q.shape[:2], v.shape[-1], dtype=q.dtype, device=q.device)
    module("triton_prefill_attention").context_attention_fwd(
        q,
        k,
        v,
        out,
        cumulative(q_lens)[:-1].int().contiguous(),
        q_lens.int(),
        int(q_lens.max()),
        is_causal=causal,
        softmax_scale=scale,
        sliding_window_q=window_left,
        sliding_window_k=window_right,
        sinks=sink,
    )
    return out


@kernel("merge_states", limits={"states": (2,)}, conventions={"lse_base": "natural"})
def vllm_merge_attn_states(outs: Any, lses: Any) -> Any:
    """merge_attn_states of two states."""
    import torch

    out, lse = torch.empty_like(outs[0]), torch.empty_like(lses[0].T, memory_format=torch.contiguous_format)
    given = ((outs[at].contiguous(), lses[at].T.contiguous()) for at in range(2))
    module("triton_merge_attn_states").merge_attn_states(out, *(x for pair in given for x in pair), lse)
    return {"out": out, "lse": lse.T}


@kernel(
    "gathered_attention",
    layout="bshd",
    dtypes=("bfloat16",),
    fixed={"block_size": 1, "causal": False},
    limits={"batch": (1,), "kv_heads": (1,), "value_dim": (512,)},
    requires=("head_dim > value_dim and identical(v, k[..., :value_dim])", "count % 16 == 0"),
)
def vllm_mla_sparse(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    *,
    block_size: int = 1,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """triton_bf16_mla_sparse_interface of one item, whose values are the first 512 channels of its keys."""
    if k.shape[:2] != v.shape[:2] or q.shape[1] != selected.shape[1]:
        raise ValueError("keys and values belong together, and every query has a list")
    factor = q.shape[3] ** -0.5 if scale is None else scale
    call = module("xpu_mla_sparse").triton_bf16_mla_sparse_interface
    out, _, lse = call(q[0], k[0], selected[0].int(), factor, v.shape[3], q.shape[3] - v.shape[3])
    return {"out": out[None], "lse": lse.T[None]}
