"""Codes in vLLM's unified attention in Triton: of its output, and of the keys and values in pages.

Source: https://github.com/vllm-project/vllm (vllm/v1/attention/ops/triton_unified_attention.py)
The output in float8 has one scale for everything; codes in pages have one scale for all keys and one for all values.
"""

from __future__ import annotations

from typing import Any

from .kernels import PAGES, kernel, unified
from .modules import module

ONE_SCALE = "size(out_scale, 1) == 1 and size(out_scale, 2) == 1"
PAGE = 16


def coded(out_scale: Any) -> dict[str, Any]:
    """What asks for an output in float8 with one scale for everything."""
    import torch

    return {"output_scale": out_scale.reshape(1), "dtype": torch.float8_e4m3fn}


@kernel("paged_attention", requires=(*PAGES["requires"], "size(out_scale, 2) == 1"), conventions=PAGES["conventions"])
def vllm_unified_attention_coded_output(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    out_scale: Any,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """unified_attention with an output_scale."""
    return unified(q, key_pages, value_pages, table, k_lens, scale, window_left, softcap, **coded(out_scale))


@kernel("cached_attention", requires=("value_dim == head_dim", ONE_SCALE), conventions=PAGES["conventions"])
def vllm_unified_attention_coded_chunks(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    out_scale: Any,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """unified_attention with an output_scale, for each chunk over the pages that hold it and all before it."""
    import torch

    batch, kv_heads, length, width = k.shape
    count, end, outs = -(-length // PAGE), 0, []
    table = torch.arange(batch * count, dtype=torch.int32, device=q.device).view(batch, count).flip(0)
    keys, values = (x.new_zeros(batch * count, PAGE, kv_heads, width) for x in (k, v))
    for n in chunks:
        start, end = end, end + n
        places = torch.arange(start, end, device=q.device)
        for pool, x in zip((keys, values), (k, v), strict=True):
            pool[table[:, places // PAGE].long(), places % PAGE] = x[:, :, start:end].transpose(1, 2)
        queries, lens = q[:, :, start:end].transpose(1, 2).contiguous(), torch.full((batch,), end, device=q.device)
        outs.append(
            unified(queries, keys, values, table, lens, scale, window_left, None, **coded(out_scale)).transpose(1, 2)
        )
    return torch.cat([out.float() for out in outs], 2).to(torch.float8_e4m3fn)


@kernel(
    "paged_attention",
    requires=(
        *PAGES["requires"],
        "size(k_scale, 0) * size(k_scale, 1) * size(k_scale, 2) * size(k_scale, 3) == 1",
        "size(v_scale, 0) * size(v_scale, 1) * size(v_scale, 2) * size(v_scale, 3) == 1",
    ),
    conventions=PAGES["conventions"],
    limits={"kv_dtype": ("e4m3fn",)},
)
def vllm_unified_attention_of_codes(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """unified_attention of pages in float8 with k_descale and v_descale."""
    mode = module("triton_unified_attention").KVQuantMode.FP8_PER_TENSOR
    more: dict[str, Any] = {"scales": (k_scale.reshape(1), v_scale.reshape(1)), "kv_quant_mode": mode}
    return unified(q, key_pages, value_pages, table, k_lens, scale, window_left, softcap, **more)
