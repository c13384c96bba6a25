"""Queries and keys that SGLang normalises head by head and turns in one step, in Triton.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops/attention/table_qk_norm_rope.py)
It works in place on rows of queries, keys and values in bfloat16, heads of a power of two channels, and reads cosines
and sines from a table in float32, which the caller computes.
"""

from __future__ import annotations

from typing import Any

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
    frequency = base ** (-torch.arange(0, dim, 2).float() / dim)
    angle = torch.arange(int(positions.max()) + 1)[:, None] * frequency
    rows = torch.cat((q, k, torch.zeros_like(k)), 2).view(batch * length, -1)
    module("table_qk_norm_rope").table_qk_norm_rope_(
        rows,
        positions.flatten(),
        q_weight.contiguous(),
        k_weight.contiguous(),
        torch.cat((angle.cos(), angle.sin()), 1),
        heads,
        kv_heads,
        dim,
        eps,
    )
    found = rows.view(batch, length, -1, dim)
    return {"q_out": found[:, :, :heads].clone(), "k_out": found[:, :, heads : heads + kv_heads].clone()}
