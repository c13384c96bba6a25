"""Convolutions and state spaces of vLLM over packed items, for the CPU and in Triton.

Source: https://github.com/vllm-project/vllm (vllm/model_executor/layers/mamba/ops)
What a slot of the cache holds is written over. The first slot is for items that are not there, so that items have
those from the second on. Where no states are given, slots hold what is not to be read; what an item without tokens
leaves is what its slot holds. State spaces are told where chunks begin, which do not reach beyond their items; those in
Triton have nothing for an item without tokens, and multiply weights and states in the dtype of the inputs.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.packed import convolvable, cumulative
from ..triton.interpreter import declared
from .modules import mamba_module, torch_module

DTYPES = ("float32", "bfloat16", "float16")
NAIVE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}


@adapter(
    "packed_convolution",
    dtypes=DTYPES,
    package="vllm",
    grade=NAIVE,
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


def of_items(x: Any, dt: Any, lens: Any, state: Any) -> None:
    """Refuse items of a state space that do not belong together."""
    if len(dt) != len(x) or int(lens.sum()) != len(x) or (state is not None and len(state) != len(lens)):
        raise ValueError("every token has a step, and every item a state")


@adapter("packed_state_space", dtypes=DTYPES, package="vllm")
def vllm_cpu_packed_state_space(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    lens: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """_mamba_chunk_scan_combined_fwd_cpu, item by item and token by token in C++."""
    import torch

    of_items(x, dt, lens, state)
    out = torch.empty(x.shape, dtype=x.dtype)
    left = torch_module("mamba_ssm")._mamba_chunk_scan_combined_fwd_cpu(
        x.contiguous(),
        dt,
        a,
        b.contiguous(),
        c.contiguous(),
        64,
        out,
        D=d,
        dt_bias=dt_bias,
        initial_states=state,
        cu_seqlens=cumulative(lens),
        dt_softplus=softplus,
        state_dtype=torch.float32,
    )
    return {"out": out, "final_state": left}


@declared("packed_state_space", dtypes=DTYPES, package="vllm", requires="all(lens > 0)", grade=NAIVE)
def vllm_packed_state_space(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    lens: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """mamba_chunk_scan_combined_varlen, in chunks of 16 tokens."""
    import torch

    of_items(x, dt, lens, state)
    chunks = [(item, min(16, length - at)) for item, length in enumerate(lens.tolist()) for at in range(0, length, 16)]
    items, sizes = (torch.tensor(row, dtype=torch.int32, device=x.device) for row in zip(*chunks, strict=True))
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    left = mamba_module("ssd_combined").mamba_chunk_scan_combined_varlen(
        x,
        dt,
        a,
        b,
        c,
        16,
        cumulative(lens).int(),
        cumulative(sizes).int(),
        ((lens + 15) // 16).cumsum(0) - 1,
        items,
        out,
        D=d,
        dt_bias=dt_bias,
        initial_states=state,
        dt_softplus=softplus,
        state_dtype=torch.float32,
    )
    return {"out": out, "final_state": left}
