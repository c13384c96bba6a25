"""Linear attention of flash-linear-attention, without a gate and with one for each head or channel of the keys.

States are in float32, and so is the arithmetic of all but the chunked form without a gate.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .naive import naive

SINGLE: dict[str, Any] = {
    "layout": "bshd",
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "fla",
    "extra": "fla",
}
NAIVE: dict[str, Any] = {**SINGLE, "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"}}
PLAIN = {"feature_map": "identity", "causal": True, "eps": 1e-10}
HEADS = "not single(gate) and size(gate) == 1"


@adapter("linear_attention", fixed=PLAIN, conventions={"eps_place": "to_normaliser"}, **SINGLE)
def fla_naive_recurrent_linear_attention(
    q: Any,
    k: Any,
    v: Any,
    state: Any = None,
    key_sum: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
    eps: float = 1e-10,
) -> Any:
    """naive_recurrent_linear_attn, token by token; the sum of keys is handed on with the normaliser."""
    given = (state, None if key_sum is None else key_sum[:, None]) if normalise else state
    call = naive("linear_attn").naive_recurrent_linear_attn
    out, left = call(q, k, v, scale=scale, initial_state=given, output_final_state=True, normalize=normalise)
    if not normalise:
        return {"out": out, "final_state": left}
    return {"out": out, "final_state": left[0], "final_sum": left[1][:, 0]}


@adapter(
    "linear_attention",
    fixed=PLAIN,
    conventions={"eps_place": "to_normaliser"},
    limits={"length": (64, 128)},
    **NAIVE,
)
def fla_naive_chunked_linear_attention(
    q: Any, k: Any, v: Any, *, scale: float | None = None, normalise: bool = False, eps: float = 1e-10
) -> Any:
    """naive_chunk_linear_attn, in chunks of 64 tokens, which it has to be given whole."""
    return naive("linear_attn").naive_chunk_linear_attn(q, k, v, scale=scale, normalize=normalise)


GATED: dict[str, Any] = {"feature_map": "identity", "causal": True, "normalise": False}


@adapter("linear_attention", fixed={**GATED, "scale": None}, requires="not single(gate)", **SINGLE)
def fla_naive_recurrent_gla(q: Any, k: Any, v: Any, gate: Any = None, state: Any = None) -> Any:
    """naive_recurrent_gla, token by token, with a gate for each channel of the keys."""
    gates = gate.expand(k.shape)
    out, left = naive("gla").naive_recurrent_gla(q, k, v, gates, initial_state=state, output_final_state=True)
    return {"out": out, "final_state": left}


@adapter("linear_attention", fixed=GATED, requires=HEADS, **SINGLE)
def fla_naive_recurrent_simple_gla(
    q: Any, k: Any, v: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """naive_recurrent_simple_gla, token by token, with a gate for each head."""
    call = naive("simple_gla").naive_recurrent_simple_gla
    out, left = call(q, k, v, gate[..., 0], scale=scale, initial_state=state, output_final_state=True)
    return {"out": out, "final_state": left}


@adapter("linear_attention", fixed=GATED, requires=HEADS, **SINGLE)
def fla_naive_chunked_simple_gla(
    q: Any, k: Any, v: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """naive_chunk_simple_gla, in chunks of 64 tokens; what it returns in float32 is rounded."""
    call = naive("simple_gla").naive_chunk_simple_gla
    out, left = call(q, k, v, gate[..., 0], scale=scale, initial_state=state, output_final_state=True)
    return {"out": out.to(v.dtype), "final_state": left}


@adapter("linear_attention", fixed=GATED, requires=HEADS, **SINGLE)
def fla_naive_parallel_simple_gla(q: Any, k: Any, v: Any, gate: Any = None, *, scale: float | None = None) -> Any:
    """naive_parallel_simple_gla, all products at once; what it returns in float32 is rounded."""
    return naive("simple_gla").naive_parallel_simple_gla(q, k, v, gate[..., 0], scale=scale)[0].to(v.dtype)


@adapter("log_linear_attention", **NAIVE)
def fla_naive_log_linear_attention(
    q: Any, k: Any, v: Any, gate: Any, level_scales: Any, *, scale: float | None = None
) -> Any:
    """naive_log_linear_attn, with a mask for each level."""
    if v.shape[1] != k.shape[1]:
        raise ValueError("every key has a value")
    return naive("log_linear_attn").naive_log_linear_attn(q, k, v, gate, level_scales, scale=scale)


@adapter(
    "retention",
    dtypes=("float32", "bfloat16", "float16"),
    fixed={"base": None, "scale": None, "offset": 0},
    conventions={"decays": "powers", "scaled": "by_query"},
    package="fla",
    extra="fla",
)
def fla_naive_retention(q: Any, k: Any, v: Any) -> Any:
    """naive_retention, all products at once."""
    return naive("retention").naive_retention(q, k, v)
