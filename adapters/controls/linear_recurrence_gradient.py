"""Right, but different: gradients of gated linear recurrences through forms that are right, and by a scan back."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .linear_recurrence import control_recurrence_by_pairs, control_recurrence_by_tokens, prepared

DTYPES = ("float32", "bfloat16", "float16")


@adapter("linear_recurrence_gradient", dtypes=DTYPES)
def control_recurrence_back_by_tokens(
    x: Any,
    a: Any,
    d_out: Any,
    state: Any = None,
    d_final_state: Any = None,
    *,
    reverse: bool = False,
    log_space: bool = False,
) -> dict[str, Any]:
    """Back through every token, one by one."""
    out = partial(control_recurrence_by_tokens, reverse=reverse, log_space=log_space)
    return differentiated(out, d_out, further={"final_state": d_final_state}, x=x, a=a, state=state)


@adapter("linear_recurrence_gradient", dtypes=DTYPES)
def control_recurrence_back_by_pairs(
    x: Any,
    a: Any,
    d_out: Any,
    state: Any = None,
    d_final_state: Any = None,
    *,
    reverse: bool = False,
    log_space: bool = False,
) -> dict[str, Any]:
    """Back through the pairs of factors and inputs that were put together."""
    out = partial(control_recurrence_by_pairs, reverse=reverse, log_space=log_space)
    return differentiated(out, d_out, further={"final_state": d_final_state}, x=x, a=a, state=state)


@adapter("linear_recurrence_gradient", dtypes=DTYPES)
def control_recurrence_back_by_a_recurrence(
    x: Any,
    a: Any,
    d_out: Any,
    state: Any = None,
    d_final_state: Any = None,
    *,
    reverse: bool = False,
    log_space: bool = False,
) -> dict[str, Any]:
    """The recurrence again, the other way round, with the stored outputs as states."""
    import torch

    if d_out.shape != x.shape:
        raise ValueError("every token has an output")
    out = control_recurrence_by_tokens(x, a, state, reverse=reverse, log_space=log_space)["out"]
    _, factors, first = prepared(x, a, state, log_space)
    first = first[..., None]
    states = (out[..., 1:].float(), first) if reverse else (first, out[..., :-1].float())
    before = torch.cat(states, 2)
    none = torch.ones_like(first)
    ahead = torch.cat((none, factors[..., :-1]) if reverse else (factors[..., 1:], none), 2)
    d_x = control_recurrence_by_pairs(d_out.float(), ahead, d_final_state, reverse=not reverse)["out"]
    d_a = d_x * before * (factors if log_space else 1)
    found = {"d_x": d_x.to(x.dtype), "d_a": d_a.to(x.dtype)}
    end = -1 if reverse else 0
    return found if state is None else {**found, "d_state": factors[..., end] * d_x[..., end]}
