"""Attention of SGLang in Triton: over pools of tokens, over packed items, and of partial states.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops/attention)
A list of tokens says where in the pool the keys of an item lie, one after the other, so that pages are taken apart.
The attention of a chunk takes its own keys beside those before it, which lie in the pool. A window counts positions to
the left, and a scale of zero is taken for none there. Keys of single queries are split in two.
"""

from __future__ import annotations

import functools
from typing import Any

from ..torch.packed import cumulative
from ..triton.interpreter import TILED, declared
from .modules import module

kernel = functools.partial(declared, dtypes=("float32", "bfloat16", "float16"), package="sglang")
SPLITS = 2
MOST = 8
"""Splits that buffers have room for."""


def pooled(pages: Any) -> Any:
    """The tokens of pages, one after the other: [tokens, kv_heads, size].

    Kernels take the channels of a token for neighbours, as they are in SGLang's own pools.
    """
    found = pages.flatten(0, 1)
    return found if found.stride(-1) == 1 else found.contiguous()


def tokens(table: Any, lens: Any, page_size: int) -> Any:
    """Where in the pool the first tokens of each item lie, one item after the other."""
    import torch

    places = [
        table[item, at // page_size] * page_size + at % page_size
        for item, n in enumerate(lens.tolist())
        for at in [torch.arange(n, device=table.device)]
    ]
    return torch.cat(places).to(torch.int64)


@kernel(
    "paged_attention",
    limits={"q_len": (1,)},
    requires="all(k_lens > 0)",
    conventions={"grouping": "block"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    splits=SPLITS,
    on=TILED,
)
def sglang_decode_attention(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    sink: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """decode_attention_fwd of single queries, with the keys of an item in two parts."""
    import torch

    batch, _, heads, width = q.shape
    value_dim = value_pages.shape[-1]
    out = torch.empty(batch, heads, value_dim, dtype=q.dtype, device=q.device)
    module("decode_attention").decode_attention_fwd(
        q[:, 0].contiguous(),
        pooled(key_pages),
        pooled(value_pages),
        out,
        cumulative(k_lens).int(),
        tokens(table, k_lens, key_pages.shape[1]),
        torch.empty(batch, heads, MOST, value_dim, device=q.device),
        torch.empty(batch, heads, MOST, device=q.device),
        torch.full((batch,), SPLITS, dtype=torch.int32, device=q.device),
        MOST,
        width**-0.5 if scale is None else scale,
        1.0,
        1.0,
        logit_cap=0.0 if softcap is None else softcap,
        sinks=sink,
    )
    return out[:, None]


EXTENDED: dict[str, Any] = {
    "requires": ("all(k_lens >= q_len)", "window_left == none or window_left > 0", "scale == none or scale != 0"),
    "conventions": {"grouping": "block"},
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    "on": TILED,
}


def extended(
    q: Any, key_pages: Any, value_pages: Any, table: Any, k_lens: Any, mask: Any = None, **options: Any
) -> Any:
    """extend_attention_fwd of chunks, whose own keys are taken out of the pool; a mask has a row for each query."""
    import torch

    batch, q_len, heads, _ = q.shape
    if mask is not None and mask.shape[:2] != q.shape[:2]:
        raise ValueError("a mask has a row for each query")
    keys, values, size = pooled(key_pages), pooled(value_pages), key_pages.shape[1]
    places, ends = tokens(table, k_lens, size), k_lens.cumsum(0).tolist()
    own = torch.cat([places[end - q_len : end] for end in ends])
    before = k_lens - q_len
    out = torch.empty(batch * q_len, heads, values.shape[-1], dtype=q.dtype, device=q.device)
    seen = None if mask is None else torch.cat([m[:, :n].flatten() for m, n in zip(mask, k_lens.tolist(), strict=True)])
    module("extend_attention").extend_attention_fwd(
        q.flatten(0, 1).contiguous(),
        keys[own].contiguous(),
        values[own].contiguous(),
        out,
        keys,
        values,
        torch.arange(0, batch * q_len + 1, q_len, dtype=torch.int32, device=q.device),
        cumulative(before).int(),
        tokens(table, before, size),
        seen,
        True,
        None if mask is None else cumulative(q_len * k_lens),
        q_len,
        1.0,
        1.0,
        skip_prefix_custom_mask=mask is None,
        **options,
    )
    return out.unflatten(0, (batch, q_len))


@kernel("paged_attention", **EXTENDED)
def sglang_extend_attention(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    sink: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    window_left: int | None = None,
) -> Any:
    """extend_attention_fwd under the causal mask."""
    options = {"sm_scale": scale, "logit_cap": softcap or 0.0, "sinks": sink}
    window = -1 if window_left is None else window_left
    return extended(q, key_pages, value_pages, table, k_lens, sliding_window_size=window, **options)


@kernel("paged_attention", **EXTENDED)
def sglang_extend_attention_masked(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    mask: Any,
    scale: float | None = None,
    softcap: float | None = None,
    window_left: int | None = None,
) -> Any:
    """extend_attention_fwd with a custom_mask, as of a tree of drafted tokens."""
    options: dict[str, Any] = {"sm_scale": scale, "logit_cap": softcap or 0.0}
    window = -1 if window_left is None else window_left
    options |= {"sliding_window_size": window, "window_kv_offsets": k_lens.new_zeros(len(k_lens)).int()}
    return extended(q, key_pages, value_pages, table, k_lens, mask, **options)


@kernel(
    "packed_attention",
    requires=("value_dim == head_dim", "identical(q_lens, k_lens)"),
    conventions={"grouping": "block"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    on=TILED,
)
def sglang_prefill_attention(
    q: Any, k: Any, v: Any, q_lens: Any, k_lens: Any, *, causal: bool = False, scale: float | None = None
) -> Any:
    """context_attention_fwd of items with as many keys as queries."""
    import torch

    out = torch.empty(*q.shape[:2], v.shape[-1], dtype=q.dtype, device=q.device)
    starts = cumulative(q_lens)[:-1].int().contiguous()
    module("prefill_attention").context_attention_fwd(
        q, k, v, out, starts, q_lens.int(), int(q_lens.max()), is_causal=causal, sm_scale=scale
    )
    return out


@kernel("merge_states", limits={"states": (2,)}, conventions={"lse_base": "natural"})
def sglang_merge_state(outs: Any, lses: Any) -> Any:
    """merge_state_triton of two states."""
    given = ((outs[at].contiguous(), lses[at].contiguous()) for at in range(2))
    out, lse = module("merge_state").merge_state_triton(*(x for pair in given for x in pair))
    return {"out": out, "lse": lse}
