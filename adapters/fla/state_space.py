"""The state space of Mamba-2 by the gated linear attention of flash-linear-attention, with a gate for each head.

Dao and Gu 2024, Transformers are SSMs, arXiv:2405.21060, section 5: what a state space with one number for a head does
is linear attention with queries c, keys b, values of x times the step, and a gate of the step times a.
Steps, values and the skipped part are made here in float32, which all arithmetic of the functions is in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from .linear_attention import SINGLE
from .naive import naive


def by_attention(
    attend: Callable[..., Any],
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    dt_bias: Any,
    state: Any,
    softplus: bool,
) -> Any:
    """The state space by a function of gated linear attention."""
    import torch

    steps = dt.float() if dt_bias is None else dt.float() + dt_bias
    steps = torch.nn.functional.softplus(steps) if softplus else steps
    group = x.shape[2] // b.shape[2]
    queries, keys = (y.float().repeat_interleave(group, 2) for y in (c, b))
    held = None if state is None else state.mT
    values = x.float() * steps[..., None]
    out, left = attend(queries, keys, values, steps * a, scale=1.0, initial_state=held, output_final_state=True)
    out = out if d is None else out + d[:, None] * x.float()
    return {"out": out.to(x.dtype), "final_state": left.mT.contiguous()}


@adapter("state_space", **SINGLE)
def fla_naive_recurrent_state_space(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """naive_recurrent_simple_gla, token by token."""
    attend = naive("simple_gla").naive_recurrent_simple_gla
    return by_attention(attend, x, dt, a, b, c, d, dt_bias, state, softplus)


@adapter("state_space", **SINGLE)
def fla_naive_chunked_state_space(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """naive_chunk_simple_gla, in chunks of 64 tokens."""
    attend = naive("simple_gla").naive_chunk_simple_gla
    return by_attention(attend, x, dt, a, b, c, d, dt_bias, state, softplus)
