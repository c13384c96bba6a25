"""The package linformer.

Source: https://github.com/lucidrains/linformer (LinformerSelfAttention).
Its layer projects one input to queries, keys and values. Here the input holds all three side by side, and the maps pick
one of them each, so that nothing is computed beside what is under test.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from ..torch.layers import new_layer


@adapter(
    "linformer",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="linformer",
    extra="linformer",
    name="linformer_layer",
)
def layer(q: Any, k: Any, v: Any, e: Any, f: Any) -> Any:
    """LinformerSelfAttention with maps that pick."""
    import torch
    from linformer import LinformerSelfAttention

    batch, heads, length, dim = q.shape
    width = heads * dim
    if not length:
        raise Unsupported("there is a position")
    made = new_layer(LinformerSelfAttention, 3 * width, length, k=e.shape[0], heads=heads, dim_head=dim)
    made = made.to(q.device, q.dtype)
    picks = torch.eye(3 * width, dtype=q.dtype, device=q.device)
    with torch.no_grad():
        for projection, part in zip((made.to_q, made.to_k, made.to_v), picks.chunk(3), strict=True):
            projection.weight.copy_(part)
        made.to_out.weight.copy_(picks[:, :width])
        made.to_out.bias.zero_()
        made.proj_k.copy_(e.T)
        made.proj_v.copy_(f.T)
        x = torch.cat([t.transpose(1, 2).reshape(batch, length, width) for t in (q, k, v)], -1)
        out = made.eval()(x)[..., :width]
    return out.reshape(batch, length, heads, dim).transpose(1, 2).contiguous()
