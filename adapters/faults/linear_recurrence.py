"""Linear recurrences in chunks, and what goes wrong between chunks, in narrow arithmetic and with what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.linear_recurrence import prepared
from .whole import Whole

CHUNK = 16
ALONE: Any = {"dtypes": ("float32",)}


def begun(state: Any) -> Any:
    """The state that a sequence begins with."""
    return state


def passed(state: Any) -> Any:
    """The state that a chunk hands on to the next."""
    return state


def within(factors: Any, inputs: Any, state: Any, kept: Callable[[Any], Any] = passed) -> Any:
    """The states after each token of a chunk, as they are kept from one to the next."""
    import torch

    rows = []
    for t in range(inputs.shape[2]):
        state = kept(factors[..., t] * state + inputs[..., t])
        rows.append(state)
    return torch.stack(rows, 2)


def chunked(part: Any) -> Callable[..., Any]:
    def linear_recurrence(x: Any, a: Any, state: Any = None, *, reverse: bool = False, log_space: bool = False) -> Any:
        import torch

        inputs, factors, state = prepared(x, a, state, log_space)
        if reverse:
            inputs, factors = inputs.flip(2), factors.flip(2)
        state, rows = part.begun(state), [inputs[..., :0]]
        for start in range(0, x.shape[2], CHUNK):
            own = slice(start, start + CHUNK)
            rows.append(part.within(factors[..., own], inputs[..., own], state))
            state = part.passed(rows[-1][..., -1])
        out = torch.cat(rows, 2)
        return {"out": (out.flip(2) if reverse else out).to(x.dtype), "final_state": state.clone()}

    return linear_recurrence


CHUNKED = Whole("linear_recurrence", chunked, (begun, passed, within))


@CHUNKED.instead_of(passed)
def recurrence_in_bfloat16_between_chunks(state: Any) -> Any:
    """The state between chunks is stored in bfloat16."""
    return state.bfloat16().float()


@CHUNKED.instead_of(within)
def recurrence_in_bfloat16(factors: Any, inputs: Any, state: Any) -> Any:
    """States are kept in bfloat16 from token to token."""
    return within(factors, inputs, state, recurrence_in_bfloat16_between_chunks)


@CHUNKED.instead_of(within, **ALONE)
def recurrence_by_reciprocal_products(factors: Any, inputs: Any, state: Any) -> Any:
    """What a chunk adds is divided by the product of the factors up to its token, which may be zero."""
    product = factors.cumprod(2)
    return product * (state[..., None] + (inputs / product).cumsum(2))


@CHUNKED.instead_of(within, **ALONE)
def recurrence_of_logarithms_of_inputs(factors: Any, inputs: Any, state: Any) -> Any:
    """States are added up as logarithms, which those that are not positive lack."""
    import torch

    total = factors.log().cumsum(2)
    terms = torch.cat((state[..., None].log(), inputs.log() - total), 2)
    return (total + terms.logcumsumexp(2)[..., 1:]).exp()


STATES: dict[tuple[int, ...], Any] = {}


@CHUNKED.instead_of(begun, **ALONE)
def recurrence_from_an_earlier_state(state: Any) -> Any:
    """The state that a first call of a shape began with serves later ones."""
    return STATES.setdefault(tuple(state.shape), state.clone())
