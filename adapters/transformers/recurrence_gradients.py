"""The gradients of what models of Hugging Face transformers hand from token to token, by automatic differentiation.

They train through these functions where no kernel is installed.
Source: transformers/models/*/modeling_*.py, as the adapters of the functions themselves name them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from . import convolution, delta_rule, kimi_delta_attention, selective_scan, state_space


def through_delta_rule(name: str, d_out: Any, d_final_state: Any, normalise: bool, **inputs: Any) -> dict[str, Any]:
    """The gradients of a function of the gated delta rule."""

    def out(q: Any, k: Any, v: Any, beta: Any, gate: Any, state: Any) -> Any:
        return delta_rule.computed(name, q, k, v, beta, gate, state, normalise)

    return differentiated(out, d_out, further={"final_state": d_final_state}, **inputs)


@adapter("gated_delta_rule_gradient", **delta_rule.DECLARED)
def qwen3_next_recurrent_gradient(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    normalise: bool = False,
) -> Any:
    """torch_recurrent_gated_delta_rule of transformers.models.qwen3_next."""
    name = "torch_recurrent_gated_delta_rule"
    return through_delta_rule(name, d_out, d_final_state, normalise, q=q, k=k, v=v, beta=beta, gate=gate, state=state)


@adapter("gated_delta_rule_gradient", **delta_rule.DECLARED)
def qwen3_next_chunked_gradient(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    normalise: bool = False,
) -> Any:
    """torch_chunk_gated_delta_rule of transformers.models.qwen3_next."""
    name = "torch_chunk_gated_delta_rule"
    return through_delta_rule(name, d_out, d_final_state, normalise, q=q, k=k, v=v, beta=beta, gate=gate, state=state)


@adapter("kimi_delta_attention_gradient", **kimi_delta_attention.DECLARED)
def kimi_linear_recurrent_gradient(
    q: Any, k: Any, v: Any, gate: Any, beta: Any, d_out: Any, state: Any = None, *, normalise: bool = False
) -> dict[str, Any]:
    """recurrent_kimi_delta_attention of transformers.models.kimi_linear."""
    out = partial(kimi_delta_attention.kimi_linear_recurrent, normalise=normalise)
    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate, beta=beta, state=state)


@adapter("kimi_delta_attention_gradient", **kimi_delta_attention.DECLARED)
def kimi_linear_chunked_gradient(
    q: Any, k: Any, v: Any, gate: Any, beta: Any, d_out: Any, state: Any = None, *, normalise: bool = False
) -> dict[str, Any]:
    """chunk_kimi_delta_attention of transformers.models.kimi_linear."""
    out = partial(kimi_delta_attention.kimi_linear_chunked, normalise=normalise)
    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate, beta=beta, state=state)


@adapter("short_convolution_gradient", **convolution.DECLARED)
def qwen3_next_convolution_gradient(
    x: Any, weight: Any, d_out: Any, bias: Any = None, *, silu: bool = False
) -> dict[str, Any]:
    """causal_conv1d_fn of transformers.models.qwen3_next."""

    def out(x: Any, weight: Any, bias: Any) -> Any:
        return convolution.qwen3_next_convolution(x, weight, bias, silu=silu)

    return differentiated(out, d_out, x=x, weight=weight, bias=bias)


@adapter("state_space_gradient", **state_space.DECLARED)
def mamba2_chunked_gradient(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d_out: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> dict[str, Any]:
    """mamba2_chunk_scan of transformers.models.mamba2, in chunks of 64 tokens."""
    out = partial(state_space.mamba2_chunked, softplus=softplus)
    return differentiated(out, d_out, x=x, dt=dt, a=a, b=b, c=c, d=d, dt_bias=dt_bias, state=state)


@adapter("selective_scan_gradient", **selective_scan.DECLARED)
def mamba_sequence_gradient(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d_out: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    *,
    softplus: bool = False,
) -> dict[str, Any]:
    """mamba_selective_scan of transformers.models.mamba, token by token."""
    out = partial(selective_scan.mamba_sequence, softplus=softplus)
    return differentiated(out, d_out, x=x, dt=dt, a=a, b=b, c=c, d=d, z=z, dt_bias=dt_bias)
