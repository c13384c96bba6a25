"""The package flash-attn, on CUDA devices.

Documentation: https://github.com/Dao-AILab/flash-attention (flash_attn_func)
It takes [batch, length, heads, head_dim], values as wide as keys, and up to 256 channels.
Its causal mask and its window are aligned at the last key, and a query that sees nothing returns zeros.
A window counts positions on each side and is unbounded at -1.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import Unsupported, adapter
from ..torch.gradients import differentiated

CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


@adapter(
    "attention",
    requires="value_dim == head_dim",
    dtypes=("float16", "bfloat16"),
    conventions=CONVENTIONS,
    limits={"head_dim": range(1, 257)},
    devices=("cuda",),
    package="flash_attn",
    extra="flash-attn",
)
def flash_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """flash_attn_func of flash-attn."""
    from flash_attn import flash_attn_func

    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    out, lse, _ = flash_attn_func(
        *(x.transpose(1, 2) for x in (q, k, v)),
        softmax_scale=scale,
        causal=causal,
        window_size=tuple(-1 if side is None else side for side in (window_left, window_right)),
        softcap=0.0 if softcap is None else softcap,
        return_attn_probs=True,
    )
    return {"out": out.transpose(1, 2), "lse": lse}


@adapter(
    "attention_gradient",
    requires="value_dim == head_dim",
    dtypes=("float16", "bfloat16"),
    conventions=CONVENTIONS,
    limits={"head_dim": range(1, 257)},
    devices=("cuda",),
    package="flash_attn",
    extra="flash-attn",
)
def flash_attention_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Gradients of flash_attn_func of flash-attn."""
    attend = partial(
        flash_attention,
        causal=causal,
        scale=scale,
        window_left=window_left,
        window_right=window_right,
        softcap=softcap,
    )
    return differentiated(attend, d_out, q=q, k=k, v=v)
