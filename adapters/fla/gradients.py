"""The gradients of functions of flash-linear-attention that are written in torch alone, by automatic differentiation.

What its kernels return for a backward pass is tested against these.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from . import delta_rule, linear_attention
from .delta_rule import BY_TOKENS, UNSCALED
from .linear_attention import GATED, HEADS, PLAIN, SINGLE


@adapter("gated_delta_rule_gradient", **UNSCALED)
def fla_delta_rule_recurrence_gradient(
    q: Any, k: Any, v: Any, beta: Any, d_out: Any, state: Any = None, d_final_state: Any = None
) -> Any:
    """delta_rule_recurrence, token by token."""
    call, asked = delta_rule.fla_delta_rule_recurrence, {"final_state": d_final_state}
    return differentiated(call, d_out, further=asked, q=q, k=k, v=v, beta=beta, state=state)


@adapter("gated_delta_rule_gradient", requires="not single(gate)", **{**BY_TOKENS, "limits": {"group": (1,)}})
def fla_naive_recurrent_gated_delta_rule_gradient(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    scale: float | None = None,
) -> Any:
    """naive_recurrent_gated_delta_rule, token by token; what it returns in float32 is rounded."""
    out, asked = partial(delta_rule.fla_naive_recurrent_gated_delta_rule, scale=scale), {"final_state": d_final_state}
    return differentiated(out, d_out, further=asked, q=q, k=k, v=v, beta=beta, gate=gate, state=state)


@adapter("gated_delta_rule_gradient", requires="not single(gate)", **{**BY_TOKENS, "limits": {"group": (1,)}})
def fla_naive_chunked_gated_delta_rule_gradient(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    scale: float | None = None,
) -> Any:
    """naive_chunk_gated_delta_rule, in chunks of 64 tokens; what it returns in float32 is rounded."""
    out, asked = partial(delta_rule.fla_naive_chunked_gated_delta_rule, scale=scale), {"final_state": d_final_state}
    return differentiated(out, d_out, further=asked, q=q, k=k, v=v, beta=beta, gate=gate, state=state)


@adapter("kimi_delta_attention_gradient", **BY_TOKENS)
def fla_naive_recurrent_kda_gradient(
    q: Any, k: Any, v: Any, gate: Any, beta: Any, d_out: Any, state: Any = None, *, scale: float | None = None
) -> Any:
    """naive_recurrent_kda, token by token."""
    out = partial(delta_rule.fla_naive_recurrent_kda, scale=scale)
    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate, beta=beta, state=state)


@adapter("kimi_delta_attention_gradient", slow=True, **{**BY_TOKENS, "limits": {"length": (64,)}})
def fla_naive_chunked_kda_gradient(
    q: Any, k: Any, v: Any, gate: Any, beta: Any, d_out: Any, state: Any = None, *, scale: float | None = None
) -> Any:
    """naive_chunk_kda, in one chunk of 64 tokens."""
    out = partial(delta_rule.fla_naive_chunked_kda, scale=scale)
    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate, beta=beta, state=state)


@adapter("linear_attention_gradient", fixed=PLAIN, conventions={"eps_place": "to_normaliser"}, **SINGLE)
def fla_naive_linear_attention_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    state: Any = None,
    key_sum: Any = None,
    d_final_state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
    eps: float = 1e-10,
) -> dict[str, Any]:
    """naive_recurrent_linear_attn, token by token; the sum of keys is handed on with the normaliser."""
    call = linear_attention.fla_naive_recurrent_linear_attention
    out = partial(call, scale=scale, normalise=normalise, eps=eps)
    sums, asked = key_sum if normalise else None, {"final_state": d_final_state}
    return differentiated(out, d_out, further=asked, q=q, k=k, v=v, state=state, key_sum=sums)


@adapter("linear_attention_gradient", fixed={**GATED, "scale": None}, requires="not single(gate)", **SINGLE)
def fla_naive_recurrent_gla_gradient(
    q: Any, k: Any, v: Any, d_out: Any, gate: Any = None, state: Any = None, d_final_state: Any = None
) -> dict[str, Any]:
    """naive_recurrent_gla, token by token, with a gate for each channel of the keys."""
    call, asked = linear_attention.fla_naive_recurrent_gla, {"final_state": d_final_state}
    return differentiated(call, d_out, further=asked, q=q, k=k, v=v, gate=gate, state=state)


@adapter("linear_attention_gradient", fixed=GATED, requires=HEADS, **SINGLE)
def fla_naive_chunked_simple_gla_gradient(
    q: Any, k: Any, v: Any, d_out: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> dict[str, Any]:
    """naive_chunk_simple_gla, in chunks of 64 tokens, with a gate for each head."""
    out = partial(linear_attention.fla_naive_chunked_simple_gla, scale=scale)
    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate, state=state)
