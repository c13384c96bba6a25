"""The kernels of flash-linear-attention, which are written in Triton.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops)
Chunks are of 64 tokens, and what is left of the last one is masked; states are in float32.
A gate in chunks is added up within each of them. `chunk_delta_rule` refuses float32.
No kernel looks whether its arrays fit: values of another length would have it write beyond its output, and end the
process somewhat later, so that adapters refuse what does not fit.
"""

# Decorators of the package hide the parameters of its functions, and some of its types leave out None.
# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..triton.interpreter import declared

DECLARED: dict[str, Any] = {
    "layout": "bshd",
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "fla.ops",
}
GATED: dict[str, Any] = {"feature_map": "identity", "causal": True, "normalise": False}
HEADS = "not single(gate) and size(gate) == 1"


def kernel(operator: str, **declaration: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An adapter that raises `ValueError` for arrays that do not fit."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        names = [*inspect.signature(function).parameters]

        @functools.wraps(function)
        def call(*arrays: Any, **options: Any) -> Any:
            given = {**dict(zip(names, arrays, strict=False)), **options}
            by_token = {tuple(x.shape[:2]) for name in ("q", "k", "v", "beta") if (x := given.get(name)) is not None}
            state = given.get("state")
            if len(by_token) > 1 or given["q"].shape[-1] != given["k"].shape[-1]:
                raise ValueError("arrays differ in their items, tokens or channels")
            if state is not None and tuple(state.shape[-2:]) != (given["k"].shape[-1], given["v"].shape[-1]):
                raise ValueError("a state is of other keys and values")
            return function(*arrays, **options)

        return declared(operator, **{**DECLARED, **declaration})(call)

    return declare


def stepped(function: Callable[..., Any], *arrays: Any, state: Any, **more: Any) -> dict[str, Any]:
    """What a kernel that goes on from a state returns, by the names of the operators."""
    out, left = function(*arrays, initial_state=state, output_final_state=True, **more)
    return {"out": out, "final_state": left}


@kernel("gated_delta_rule", requires="not single(gate)")
def fla_recurrent_gated_delta_rule(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    gate: Any = None,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """fused_recurrent_gated_delta_rule, token by token."""
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

    return stepped(
        fused_recurrent_gated_delta_rule,
        q,
        k,
        v,
        g=gate,
        beta=beta,
        scale=scale,
        state=state,
        use_qk_l2norm_in_kernel=normalise,
    )


@kernel("gated_delta_rule", requires="not single(gate)")
def fla_chunked_gated_delta_rule(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    gate: Any = None,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """chunk_gated_delta_rule."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    return stepped(
        chunk_gated_delta_rule, q, k, v, g=gate, beta=beta, scale=scale, state=state, use_qk_l2norm_in_kernel=normalise
    )


@kernel("gated_delta_rule", limits={"group": (1,)})
def fla_recurrent_delta_rule(
    q: Any, k: Any, v: Any, beta: Any, state: Any = None, *, scale: float | None = None, normalise: bool = False
) -> Any:
    """fused_recurrent_delta_rule, token by token."""
    from fla.ops.delta_rule import fused_recurrent_delta_rule

    return stepped(
        fused_recurrent_delta_rule, q, k, v, beta, scale=scale, state=state, use_qk_l2norm_in_kernel=normalise
    )


@kernel("gated_delta_rule", limits={"group": (1,)}, dtypes=("bfloat16", "float16"))
def fla_chunked_delta_rule(
    q: Any, k: Any, v: Any, beta: Any, state: Any = None, *, scale: float | None = None, normalise: bool = False
) -> Any:
    """chunk_delta_rule."""
    from fla.ops.delta_rule import chunk_delta_rule

    return stepped(chunk_delta_rule, q, k, v, beta, scale=scale, state=state, use_qk_l2norm_in_kernel=normalise)


@kernel("kimi_delta_attention")
def fla_recurrent_kda(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    beta: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """fused_recurrent_kda, token by token."""
    from fla.ops.kda import fused_recurrent_kda

    return stepped(
        fused_recurrent_kda, q, k, v, gate, beta, scale=scale, state=state, use_qk_l2norm_in_kernel=normalise
    )


@kernel("kimi_delta_attention", requires="length <= 64 or batch * heads <= 2")
def fla_chunked_kda(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    beta: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """chunk_kda."""
    from fla.ops.kda import chunk_kda

    return stepped(chunk_kda, q, k, v, gate, beta, scale=scale, state=state, use_qk_l2norm_in_kernel=normalise)


@kernel("linear_attention", fixed=GATED)
def fla_recurrent_gla(
    q: Any, k: Any, v: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """fused_recurrent_gla, token by token, with a gate for each channel of the keys or none."""
    from fla.ops.gla import fused_recurrent_gla

    gates = None if gate is None else gate.expand(k.shape).contiguous()
    return stepped(fused_recurrent_gla, q, k, v, gates, scale=scale, state=state)


@kernel("linear_attention", fixed=GATED, requires="not single(gate)")
def fla_chunked_gla(q: Any, k: Any, v: Any, gate: Any = None, state: Any = None, *, scale: float | None = None) -> Any:
    """chunk_gla, with a gate for each channel of the keys."""
    from fla.ops.gla import chunk_gla

    gates = gate.expand(k.shape).contiguous()
    return stepped(chunk_gla, q, k, v, gates, scale=scale, state=state)


@kernel("linear_attention", fixed=GATED, requires=HEADS)
def fla_recurrent_simple_gla(
    q: Any, k: Any, v: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """fused_recurrent_simple_gla, token by token, with a gate for each head."""
    from fla.ops.simple_gla import fused_recurrent_simple_gla

    gates = gate[..., 0].contiguous()
    return stepped(fused_recurrent_simple_gla, q, k, v, gates, scale=scale, state=state)


@kernel("linear_attention", fixed=GATED, requires=HEADS)
def fla_chunked_simple_gla(
    q: Any, k: Any, v: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """chunk_simple_gla, with a gate for each head."""
    from fla.ops.simple_gla import chunk_simple_gla

    gates = gate[..., 0].contiguous()
    return stepped(chunk_simple_gla, q, k, v, gates, scale=scale, state=state)


@kernel("linear_attention", fixed=GATED, requires=HEADS)
def fla_parallel_simple_gla(q: Any, k: Any, v: Any, gate: Any = None, *, scale: float | None = None) -> Any:
    """parallel_simple_gla, all products at once, with a gate for each head."""
    from fla.ops.simple_gla import parallel_simple_gla

    return parallel_simple_gla(q, k, v, gate[..., 0].contiguous(), scale=scale)[0]


@kernel("linear_attention", fixed={**GATED, "eps": 1e-10}, requires="single(gate)")
def fla_chunked_linear_attention(q: Any, k: Any, v: Any, state: Any = None, *, scale: float | None = None) -> Any:
    """chunk_linear_attn without its normaliser."""
    from fla.ops.linear_attn import chunk_linear_attn

    return stepped(chunk_linear_attn, q, k, v, scale=scale, state=state, normalize=False)


RETENTION: dict[str, Any] = {
    "fixed": {"base": None, "offset": 0},
    "conventions": {"decays": "powers", "scaled": "by_query"},
}


@kernel("retention", **RETENTION)
def fla_recurrent_retention(q: Any, k: Any, v: Any, state: Any = None, *, scale: float | None = None) -> Any:
    """fused_recurrent_retention, token by token."""
    from fla.ops.retention import fused_recurrent_retention

    return stepped(fused_recurrent_retention, q, k, v, scale=scale, state=state)


@kernel("retention", **RETENTION)
def fla_chunked_retention(q: Any, k: Any, v: Any, state: Any = None, *, scale: float | None = None) -> Any:
    """chunk_retention, in chunks of up to 64 tokens."""
    from fla.ops.retention import chunk_retention

    return stepped(chunk_retention, q, k, v, scale=scale, state=state)


@kernel("retention", **RETENTION)
def fla_parallel_retention(q: Any, k: Any, v: Any, *, scale: float | None = None) -> Any:
    """parallel_retention, all products at once."""
    from fla.ops.retention import parallel_retention

    return parallel_retention(q, k, v, scale=scale)[0]


@kernel("log_linear_attention", requires="length <= 64", grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"})
def fla_chunked_log_linear_attention(
    q: Any, k: Any, v: Any, gate: Any, level_scales: Any, *, scale: float | None = None
) -> Any:
    """chunk_log_linear_attn; keys are filled up with zeros to 64 channels, and values to a power of two."""
    from fla.ops.log_linear_attn import chunk_log_linear_attn
    from torch.nn.functional import pad

    key_dim, value_dim = k.shape[3], v.shape[3]
    wide = pad(v, (0, (1 << (value_dim - 1).bit_length()) - value_dim))
    factor = key_dim**-0.5 if scale is None else scale
    queries, keys = (pad(x, (0, -key_dim % 64)) for x in (q, k))
    return chunk_log_linear_attn(queries, keys, wide, gate, level_scales, scale=factor)[0][..., :value_dim]


@kernel(
    "attention",
    fixed={"causal": True},
    requires=("q_len == k_len", "window_right == none"),
    conventions={"grouping": "block"},
)
def fla_parallel_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    sink: Any = None,
    causal: bool = True,
    scale: float | None = None,
    window_left: int | None = None,
) -> Any:
    """parallel_attn: causal, with windows and sinks."""
    from fla.ops.attn import parallel_attn

    window = None if window_left is None else window_left + 1
    return parallel_attn(q, k, v, scale=scale, window_size=window, sink_bias=sink)
