"""Tokens that SGLang sorts by their experts and brings back, in Triton.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops/moe/ep_moe_kernels.py)
Rows are found by their places, which a kernel computes of the order that torch.sort gives. Choices of -1 are sorted in
front of the others, and those of experts elsewhere too. Rows that no choice has are never written.
"""

from __future__ import annotations

import functools
from typing import Any

from ..triton.interpreter import declared
from .modules import EXPERTS, module

kernel = functools.partial(declared, dtypes=("float32", "bfloat16", "float16"), package="sglang")


def moe() -> Any:
    """The module of the kernels."""
    return module("ep_moe_kernels", EXPERTS)


def matching(x: Any, chosen: Any) -> None:
    """Refuse tokens whose choices are missing."""
    if len(x) != len(chosen):
        raise ValueError("every token has its choices")


@kernel("token_permutation")
def sglang_deepep_permute(x: Any, chosen: Any, *, experts: int) -> Any:
    """deepep_run_moe_deep_preprocess and deepep_permute_triton_kernel."""
    import torch

    matching(x, chosen)
    _, places, starts = moe().deepep_run_moe_deep_preprocess(chosen, experts)
    rows = torch.empty(chosen.numel(), x.shape[1], dtype=x.dtype, device=x.device)
    moe().deepep_permute_triton_kernel[(len(x),)](
        x.contiguous(), rows, places, chosen, None, chosen.shape[1], x.shape[1], BLOCK_SIZE=512
    )
    return {"rows": rows, "block_sizes": starts.diff(), "places": places.view(chosen.shape)}


@kernel("token_permutation")
def sglang_pre_reorder(x: Any, chosen: Any, *, experts: int) -> Any:
    """cutlass_w4_run_moe_ep_preproess and pre_reorder_for_cutlass_moe, with a scale of one."""
    import torch

    matching(x, chosen)
    places = moe().cutlass_w4_run_moe_ep_preproess(chosen)
    rows = torch.empty(chosen.numel(), x.shape[1], dtype=x.dtype, device=x.device)
    one = torch.ones(1, device=x.device)
    moe().pre_reorder_for_cutlass_moe(x.contiguous(), rows, places, chosen, one, experts, chosen.shape[1], *x.shape)
    return {"rows": rows, "places": places.view(chosen.shape)}


@kernel("token_unpermutation", requires="not single(weights)")
def sglang_post_reorder(rows: Any, chosen: Any, weights: Any = None) -> Any:
    """post_reorder_for_cutlass_moe of places that a kernel computes."""
    import torch

    if len(rows) != chosen.numel() or weights.shape != chosen.shape:
        raise ValueError("every choice has a row and a weight")
    places = moe().cutlass_w4_run_moe_ep_preproess(chosen)
    out = torch.empty(len(chosen), rows.shape[1], dtype=rows.dtype, device=rows.device)
    experts = int(chosen.max()) + 1
    moe().post_reorder_for_cutlass_moe(
        rows.contiguous(), out, places, chosen, weights.contiguous(), experts, chosen.shape[1], *out.shape, 1.0
    )
    return out


@kernel(
    "token_unpermutation",
    requires="not single(weights)",
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def sglang_deepep_post_reorder(rows: Any, chosen: Any, weights: Any = None) -> Any:
    """deepep_post_reorder_triton_kernel of places that a kernel computes."""
    import torch

    if len(rows) != chosen.numel() or weights.shape != chosen.shape:
        raise ValueError("every choice has a row and a weight")
    places = moe().deepep_run_moe_deep_preprocess(chosen, int(chosen.max()) + 1)[1]
    out = torch.empty(len(chosen), rows.shape[1], dtype=rows.dtype, device=rows.device)
    moe().deepep_post_reorder_triton_kernel[(len(chosen),)](
        rows.contiguous(),
        out,
        places,
        chosen,
        weights.contiguous(),
        chosen.shape[1],
        rows.shape[1],
        1.0,
        BLOCK_SIZE=512,
    )
    return out
