"""Kernels of flash-linear-attention over packed items, each with a state of its own.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops, fla/modules/causal_conv1d)
State spaces are those of Mamba-2 by the linear attention that they are, with a gate for each head.
A convolution has states of as many inputs as there are weights, of which the first is not read.
"""

# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import functools
from typing import Any

from ..torch.packed import convolvable, cumulative
from ..triton.interpreter import declared
from .convolution import widened
from .kernels import DECLARED, HEADS
from .state_space import by_attention


def packed(call: Any, q: Any, k: Any, v: Any, beta: Any, lens: Any, gate: Any, state: Any, **asked: Any) -> Any:
    """A kernel on items that lie one behind the other, which it takes as one item with running sums of lengths."""
    if len(v) != len(k) or int(lens.sum()) != len(k) or (state is not None and len(state) != len(lens)):
        raise ValueError("every key has a value, and every item a state")
    out, left = call(
        *(x[None] for x in (q, k, v)),
        g=gate[None],
        beta=beta[None],
        initial_state=state,
        output_final_state=True,
        cu_seqlens=cumulative(lens).long(),
        **asked,
    )
    return {"out": out[0], "final_state": left}


PACKED: dict[str, Any] = {**DECLARED, "layout": "thd", "requires": "not single(gate)"}


@declared("packed_delta_rule", **PACKED)
def fla_recurrent_packed_delta_rule(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    lens: Any,
    gate: Any = None,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """fused_recurrent_gated_delta_rule with running sums of lengths."""
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule as call

    return packed(call, q, k, v, beta, lens, gate, state, scale=scale, use_qk_l2norm_in_kernel=normalise)


@declared("packed_delta_rule", **PACKED)
def fla_chunked_packed_delta_rule(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    lens: Any,
    gate: Any = None,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """chunk_gated_delta_rule with running sums of lengths."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as call

    return packed(call, q, k, v, beta, lens, gate, state, scale=scale, use_qk_l2norm_in_kernel=normalise)


@declared("packed_convolution", dtypes=DECLARED["dtypes"], package="fla.modules")
def fla_packed_convolution(
    x: Any, weight: Any, lens: Any, bias: Any = None, state: Any = None, *, silu: bool = False
) -> Any:
    """causal_conv1d with running sums of lengths."""
    convolvable(x, weight, lens, state)
    return convolved(x, weight, bias, state, lens, silu)


def convolved(x: Any, weight: Any, bias: Any, state: Any, lens: Any, silu: bool) -> Any:
    """What causal_conv1d returns, by the names of the operator."""
    from fla.modules.causal_conv1d import causal_conv1d

    out, left = causal_conv1d(
        x[None],
        weight,
        bias,
        initial_state=widened(state),
        output_final_state=True,
        activation="silu" if silu else None,
        cu_seqlens=cumulative(lens).long(),
    )
    return {"out": out[0], "final_state": left[..., 1:]}


def packed_attention(call: Any, q: Any, k: Any, v: Any, gate: Any, lens: Any, state: Any, scale: Any) -> Any:
    """A kernel of linear attention on items that lie one behind the other."""
    if len(v) != len(k) or int(lens.sum()) != len(k) or (state is not None and len(state) != len(lens)):
        raise ValueError("every key has a value, and every item a state")
    gates = () if gate is None else (gate.contiguous()[None],)
    out, left = call(
        *(x[None] for x in (q, k, v)),
        *gates,
        scale=scale,
        initial_state=state,
        output_final_state=True,
        cu_seqlens=cumulative(lens).long(),
    )
    return {"out": out[0], "final_state": left}


THD: dict[str, Any] = {**DECLARED, "layout": "thd"}


@declared("packed_linear_attention", **THD)
def fla_recurrent_packed_gla(
    q: Any, k: Any, v: Any, lens: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """fused_recurrent_gla with running sums of lengths, with a gate for each channel of the keys or none."""
    from fla.ops.gla import fused_recurrent_gla

    gates = None if gate is None else gate.expand(k.shape)
    return packed_attention(fused_recurrent_gla, q, k, v, gates, lens, state, scale)


@declared("packed_linear_attention", **{**THD, "requires": "not single(gate)"})
def fla_chunked_packed_gla(
    q: Any, k: Any, v: Any, lens: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """chunk_gla with running sums of lengths, with a gate for each channel of the keys."""
    from fla.ops.gla import chunk_gla

    return packed_attention(chunk_gla, q, k, v, gate.expand(k.shape), lens, state, scale)


@declared("packed_linear_attention", **{**THD, "requires": HEADS})
def fla_recurrent_packed_simple_gla(
    q: Any, k: Any, v: Any, lens: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """fused_recurrent_simple_gla with running sums of lengths, with a gate for each head."""
    from fla.ops.simple_gla import fused_recurrent_simple_gla

    return packed_attention(fused_recurrent_simple_gla, q, k, v, gate[..., 0], lens, state, scale)


@declared("packed_linear_attention", **{**THD, "requires": HEADS})
def fla_chunked_packed_simple_gla(
    q: Any, k: Any, v: Any, lens: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """chunk_simple_gla with running sums of lengths, with a gate for each head."""
    from fla.ops.simple_gla import chunk_simple_gla

    return packed_attention(chunk_simple_gla, q, k, v, gate[..., 0], lens, state, scale)


@declared("packed_linear_attention", **{**THD, "requires": "single(gate)"})
def fla_chunked_packed_linear_attention(
    q: Any, k: Any, v: Any, lens: Any, state: Any = None, *, scale: float | None = None
) -> Any:
    """chunk_linear_attn with running sums of lengths, without its normaliser and without a gate."""
    from fla.ops.linear_attn import chunk_linear_attn

    call = functools.partial(chunk_linear_attn, normalize=False)
    return packed_attention(call, q, k, v, None, lens, state, scale)


@declared("packed_state_space", **THD)
def fla_chunked_packed_state_space(
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
    """chunk_simple_gla with running sums of lengths, on steps times x."""
    from fla.ops.simple_gla import chunk_simple_gla

    if len(dt) != len(x) or int(lens.sum()) != len(x) or (state is not None and len(state) != len(lens)):
        raise ValueError("every token has a step, and every item a state")
    attend = functools.partial(chunk_simple_gla, cu_seqlens=cumulative(lens).long())
    arrays = [y[None] for y in (x, dt)]
    found = by_attention(attend, *arrays, a, b[None], c[None], d, dt_bias, state, softplus)
    return {"out": found["out"][0], "final_state": found["final_state"]}
