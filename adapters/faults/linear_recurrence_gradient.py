"""Gradients of linear recurrences by a recurrence back, in narrow arithmetic and with what an earlier call left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.linear_recurrence import control_recurrence_by_tokens, prepared
from .whole import Whole

ALONE: Any = {"dtypes": ("float32",)}


def carried(worth: Any) -> Any:
    """What is carried from a token to the one before."""
    return worth


def remembered(before: Any) -> Any:
    """The states before each token, as the backward pass finds them."""
    return before


def handed(d_final_state: Any) -> Any:
    """What the backward pass begins with."""
    return d_final_state


def backwards(part: Any) -> Callable[..., Any]:
    def linear_recurrence_gradient(
        x: Any,
        a: Any,
        d_out: Any,
        state: Any = None,
        d_final_state: Any = None,
        *,
        reverse: bool = False,
        log_space: bool = False,
    ) -> Any:
        import torch

        if d_out.shape != x.shape:
            raise ValueError("every token has an output")
        x_, factors, first = prepared(x, a, state, log_space)
        if reverse:
            x_, factors, d_out = x_.flip(2), factors.flip(2), d_out.flip(2)
        states = control_recurrence_by_tokens(x_, factors, first)["out"]
        before = part.remembered(torch.cat((first[..., None], states[..., :-1]), 2))
        worth = torch.zeros_like(first) if d_final_state is None else part.handed(d_final_state)
        rows = []
        for t in reversed(range(x.shape[2])):
            rows.append(worth + d_out[..., t].float())
            worth = part.carried(factors[..., t] * rows[-1])
        d_x = torch.stack(rows[::-1], 2)
        d_a = d_x * before * (factors if log_space else 1)
        found = {name: (y.flip(2) if reverse else y).to(x.dtype) for name, y in {"d_x": d_x, "d_a": d_a}.items()}
        return found if state is None else {**found, "d_state": worth}

    return linear_recurrence_gradient


BACKWARDS = Whole("linear_recurrence_gradient", backwards, (carried, remembered, handed))


@BACKWARDS.instead_of(carried, **ALONE)
def worth_in_bfloat16(worth: Any) -> Any:
    """What goes back from token to token is stored in bfloat16."""
    return worth.bfloat16().float()


@BACKWARDS.instead_of(remembered, **ALONE)
def states_remembered_in_bfloat16(before: Any) -> Any:
    """The states are kept for the backward pass in bfloat16."""
    return before.bfloat16().float()


@BACKWARDS.instead_of(handed)
def worth_of_an_earlier_segment(d_final_state: Any) -> Any:
    """What a first call of a shape was asked for serves later ones."""
    return HANDED.setdefault(tuple(d_final_state.shape), d_final_state.clone())


HANDED: dict[tuple[int, ...], Any] = {}
