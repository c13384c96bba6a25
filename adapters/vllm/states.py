"""Convolutions of vLLM for the CPU over packed items, whose states lie in a cache.

Source: https://github.com/vllm-project/vllm (vllm/model_executor/layers/mamba/ops/cpu)
What a slot of the cache holds is written over. The first slot is for items that are not there, so that items have
those from the second on. Where no states are given, slots hold what is not to be read; what an item without tokens
leaves is what its slot holds.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.packed import convolvable, cumulative
from .modules import torch_module

DTYPES = ("float32", "bfloat16", "float16")


@adapter(
    "packed_convolution",
    dtypes=DTYPES,
    package="vllm",
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def vllm_cpu_packed_convolution(
    x: Any, weight: Any, lens: Any, bias: Any = None, state: Any = None, *, silu: bool = False
) -> Any:
    """causal_conv1d_fn_cpu, item by item in torch, with sums of products and SiLU in the dtype of the inputs."""
    import torch

    convolvable(x, weight, lens, state)
    cache = torch.full((len(lens) + 1, x.shape[1], weight.shape[1] - 1), 7.0, dtype=x.dtype, device=x.device)
    cache[1:] = (lens > 0).to(x.dtype)[:, None, None] * cache[1:] if state is None else state
    out = torch_module("causal_conv1d").causal_conv1d_fn_cpu(
        x.contiguous().T,
        weight,
        bias,
        cache,
        cumulative(lens).int(),
        cache_indices=torch.arange(1, len(lens) + 1, dtype=torch.int32, device=x.device),
        has_initial_state=torch.full((len(lens),), state is not None, device=x.device),
        activation="silu" if silu else None,
    )
    return {"out": out.T.contiguous(), "final_state": cache[1:].clone()}
