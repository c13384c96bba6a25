"""The delta rule of flash-linear-attention: without a gate, with one for each head, and with one for each channel.

Queries and keys are taken as they are; arithmetic and states are in float32, whatever the dtype is.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .naive import naive

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "fixed": {"normalise": False},
    "package": "fla",
    "extra": "fla",
}
UNSCALED: dict[str, Any] = {**DECLARED, "fixed": {"normalise": False, "scale": None}, "limits": {"group": (1,)}}
BY_TOKENS: dict[str, Any] = {**DECLARED, "layout": "bshd"}


@adapter("gated_delta_rule", **UNSCALED)
def fla_delta_rule_recurrence(q: Any, k: Any, v: Any, beta: Any, state: Any = None) -> Any:
    """delta_rule_recurrence, token by token."""
    out, left = naive("delta_rule").delta_rule_recurrence(q, k, v, beta, initial_state=state)
    return {"out": out, "final_state": left}


@adapter("gated_delta_rule", **{**UNSCALED, "dtypes": ("float32",), "limits": {"group": (1,), "length": (32, 64, 96)}})
def fla_delta_rule_chunkwise(q: Any, k: Any, v: Any, beta: Any) -> Any:
    """delta_rule_chunkwise, in chunks of 32 tokens, which it has to be given whole."""
    out, left = naive("delta_rule").delta_rule_chunkwise(q, k, v, beta)
    return {"out": out, "final_state": left}


@adapter("gated_delta_rule", requires="not single(gate)", **{**BY_TOKENS, "limits": {"group": (1,)}})
def fla_naive_recurrent_gated_delta_rule(
    q: Any, k: Any, v: Any, beta: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """naive_recurrent_gated_delta_rule, token by token; what it returns in float32 is rounded."""
    call = naive("gated_delta_rule").naive_recurrent_gated_delta_rule
    out, left = call(q, k, v, beta, gate, scale=scale, initial_state=state, output_final_state=True)
    return {"out": out.to(v.dtype), "final_state": left}


@adapter("gated_delta_rule", requires="not single(gate)", **{**BY_TOKENS, "limits": {"group": (1,)}})
def fla_naive_chunked_gated_delta_rule(
    q: Any, k: Any, v: Any, beta: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """naive_chunk_gated_delta_rule, in chunks of 64 tokens; what it returns in float32 is rounded."""
    call = naive("gated_delta_rule").naive_chunk_gated_delta_rule
    out, left = call(q, k, v, gate, beta, scale=scale, initial_state=state, output_final_state=True)
    return {"out": out.to(v.dtype), "final_state": left}


@adapter("kimi_delta_attention", **BY_TOKENS)
def fla_naive_recurrent_kda(
    q: Any, k: Any, v: Any, gate: Any, beta: Any, state: Any = None, *, scale: float | None = None
) -> Any:
    """naive_recurrent_kda, token by token."""
    call = naive("kda").naive_recurrent_kda
    out, left = call(q, k, v, gate, beta, scale=scale, initial_state=state, output_final_state=True)
    return {"out": out, "final_state": left}


@adapter("kimi_delta_attention", **{**BY_TOKENS, "limits": {"length": (64, 128)}})
def fla_naive_chunked_kda(
    q: Any, k: Any, v: Any, gate: Any, beta: Any, state: Any = None, *, scale: float | None = None
) -> Any:
    """naive_chunk_kda, in chunks of 64 tokens, which it has to be given whole."""
    call = naive("kda").naive_chunk_kda
    out, left = call(q, k, v, gate, beta, scale=scale, initial_state=state, output_final_state=True)
    return {"out": out, "final_state": left}
