"""The attention of AITER, on AMD devices, which torch calls cuda as well.

Source: https://github.com/ROCm/aiter (aiter/ops/mha.py), installed from there; `aiter` on the package index is another.
Interface and conventions are those of flash-attn, without a cap.
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
