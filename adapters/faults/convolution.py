"""A short convolution with a state, and what goes wrong with the state and in narrow arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.convolution import extended
from .whole import Whole


def before(state: Any) -> Any:
    """The state that a call begins with."""
    return state


def kept(state: Any, left: Any) -> Any:
    """The state that is left, `left` of it being new."""
    return left


def product(last: Any, weight: Any) -> Any:
    return last * weight


def convolved(part: Any) -> Callable[..., Any]:
    def short_convolution(x: Any, weight: Any, bias: Any = None, state: Any = None, *, silu: bool = False) -> Any:
        import torch

        width, first = weight.shape[1], part.before(state)
        fits = first is not None and first.shape == (*x.shape[:2], width - 1)
        whole = extended(x, weight, first if fits else state)
        out = part.product(whole.unfold(2, width, 1), weight.float()[:, None]).sum(3)
        out = out if bias is None else out + bias.float()[:, None]
        out = torch.nn.functional.silu(out) if silu else out
        return {"out": out.to(x.dtype), "final_state": part.kept(state, whole[..., x.shape[2] :].to(x.dtype))}

    return short_convolution


CONVOLUTION = Whole("short_convolution", convolved, (before, kept, product))
_left: dict[Any, Any] = {}


@CONVOLUTION.instead_of(kept)
def state_written_over(state: Any, left: Any) -> Any:
    """The state that was given is overwritten, though another sequence may go on from it."""
    return left if state is None else state.copy_(left)


@CONVOLUTION.instead_of(before, seen="vllm-project/vllm#53912")
def state_of_an_earlier_call(state: Any) -> Any:
    """Where no state is given, that of an earlier sequence is found."""
    if state is None:
        return _left.get(None)
    _left[None] = state.clone()
    return state


@CONVOLUTION.instead_of(product, dtypes=("float32",))
def products_in_half_precision(last: Any, weight: Any) -> Any:
    """Inputs are multiplied by the weights in bfloat16."""
    return (last.bfloat16() * weight.bfloat16()).float()
