"""Queries and keys that SGLang turns, and normalises or writes into a cache in the same step, in Triton.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops/attention/table_qk_norm_rope.py,
fused_qk_rmsnorm_rope_gate.py and fused_qk_rope_reshape_and_cache.py)
The first works in place on rows of queries, keys and values in bfloat16. Its heads and those of the last have a power
of two channels, pages of the last a power of two slots, and all read cosines and sines from a table in float32, which
the caller computes.
"""

from __future__ import annotations

from typing import Any

from ..torch.rotary import table
from ..triton.interpreter import declared
from .modules import module


@declared(
    "qk_norm_rotary",
    dtypes=("bfloat16",),
    layout="bshd",
    package="sglang",
    limits={"dim": (2, 4, 8, 16, 32, 64, 128, 256)},
    fixed={"interleaved": False, "rotary_dim": None},
    grade={"bfloat16": "bf16_naive"},
)
def sglang_table_qk_norm_rope(
    q: Any, k: Any, q_weight: Any, k_weight: Any, positions: Any, *, eps: float = 1e-6, base: float = 10000.0
) -> Any:
    """table_qk_norm_rope_ of one row for each token."""
    import torch

    (batch, length, heads, dim), kv_heads = q.shape, k.shape[2]
    if len(q_weight) != dim or len(k_weight) != dim or positions.shape != q.shape[:2]:
        raise ValueError("every channel has a weight, and every token a position")
    rows = torch.cat((q, k, torch.zeros_like(k)), 2).view(batch * length, -1)
    module("table_qk_norm_rope").table_qk_norm_rope_(
        rows,
        positions.flatten(),
        q_weight.contiguous(),
        k_weight.contiguous(),
        table(positions, dim, base),
        heads,
        kv_heads,
        dim,
        eps,
    )
    found = rows.view(batch, length, -1, dim)
    return {"q_out": found[:, :, :heads].clone(), "k_out": found[:, :, heads : heads + kv_heads].clone()}


@declared(
    "qk_norm_mrope",
    dtypes=("bfloat16", "float16"),
    layout="bshd",
    package="sglang",
    requires="axes == 3",
    fixed={"interleaved": False},
    conventions={"weight_form": "one_plus"},
)
def sglang_qk_norm_mrope(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    sections: Any,
    striped: bool = False,
    eps: float = 1e-6,
    base: float = 10000.0,
    rotary_dim: int | None = None,
) -> Any:
    """fused_qk_gemma_rmsnorm_rope_gate without a gate, told the axis of each pair."""
    import torch

    (batch, length, heads, dim), kv_heads = q.shape, k.shape[2]
    tokens, width = batch * length, rotary_dim or dim
    if not q_weight.shape == k_weight.shape == q.shape[3:] == k.shape[3:] or k.shape[:2] != q.shape[:2]:
        raise ValueError("every channel has a weight, and every token queries and keys")
    sections = torch.as_tensor(sections, device=q.device).long()
    axes = torch.arange(3, device=q.device).repeat_interleave(sections)
    if striped:
        pairs = torch.arange(width // 2, device=q.device)
        axes = torch.where(pairs < 3 * sections[pairs % 3], pairs % 3, 0)
    turned, keys, _ = module("fused_qk_rmsnorm_rope_gate").fused_qk_gemma_rmsnorm_rope_gate(
        q.reshape(tokens, -1).contiguous(),
        k.reshape(tokens, -1).contiguous(),
        q_weight.contiguous(),
        k_weight.contiguous(),
        table(positions, width, base),
        positions.reshape(3, tokens).contiguous(),
        eps,
        heads,
        kv_heads,
        dim,
        width,
        has_gate=False,
        mrope_axis_map=axes,
    )
    return {"q_out": turned.view(q.shape), "k_out": keys.view(k.shape)}


@declared(
    "rotary_cache",
    dtypes=("float32", "bfloat16"),
    package="sglang",
    limits={
        "dim": (2, 4, 8, 16, 32, 64, 128, 256),
        "page_size": (1, 2, 4, 8, 16, 32, 64, 128),
    },
    fixed={"rotary_dim": None},
)
def sglang_fused_qk_rope_reshape_and_cache(
    q: Any,
    k: Any,
    v: Any,
    key_cache: Any,
    value_cache: Any,
    positions: Any,
    slots: Any,
    k_scale: Any = None,
    v_scale: Any = None,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
) -> Any:
    """fused_qk_rope_reshape_and_cache in the layout of flash attention, of copies of the caches."""
    keys, values = (x.contiguous().clone() for x in (key_cache, value_cache))
    q_out, k_out, *_ = module("fused_qk_rope_reshape_and_cache").fused_qk_rope_reshape_and_cache(
        *(x.contiguous() for x in (q, k, v)),
        keys,
        values,
        slots.contiguous(),
        positions.contiguous(),
        table(positions, q.shape[2], base),
        k_scale,
        v_scale,
        is_neox=not interleaved,
        flash_layout=True,
        output_zeros=False,
    )
    return {"q_out": q_out.view(q.shape), "keys": keys, "values": values, "k_out": k_out}
