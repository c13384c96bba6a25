"""Pages of keys and values in PyTorch, on CUDA devices.

Documentation: https://docs.pytorch.org/docs/stable/nn.attention.varlen.html (block_table)
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .packed import groups


@adapter(
    "paged_attention",
    requires="value_dim == head_dim",
    dtypes=("float16", "bfloat16"),
    conventions={"grouping": "block"},
    devices=("cuda",),
    package="torch",
)
def torch_varlen_paged(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
) -> Any:
    """torch.nn.attention.varlen.varlen_attn, with a block_table."""
    import torch
    from torch.nn.attention.varlen import varlen_attn

    if value_pages.shape != key_pages.shape:
        raise Unsupported("values have the shape of the keys")
    batch, q_len = q.shape[:2]
    out: Any = varlen_attn(
        q.flatten(0, 1),
        key_pages,
        value_pages,
        torch.arange(0, batch * q_len + 1, q_len, device=q.device, dtype=torch.int32),
        None,
        q_len,
        table.shape[1] * key_pages.shape[1],
        scale=scale,
        window_size=(-1 if window_left is None else window_left, 0),
        **groups(varlen_attn, q.shape[2] != key_pages.shape[2]),
        seqused_k=k_lens.int(),
        block_table=table.int(),
    )
    return out.unflatten(0, (batch, q_len))
