"""Retention in chunks of 16 tokens, and what goes wrong with states, tables and narrow factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.retention import logarithms, prepared
from .whole import Whole

CHUNK = 16


def factors(heads: int) -> Any:
    """The logarithms of what is left of a state after a token: [heads, 1, 1]."""
    return logarithms(heads)


def carried(state: Any) -> Any:
    """The state, as it goes from chunk to chunk."""
    return state


def started(state: Any) -> Any:
    """The state of the first chunk."""
    return state


def chunked(part: Any) -> Callable[..., Any]:
    def retention(
        q: Any,
        k: Any,
        v: Any,
        state: Any = None,
        *,
        scale: float | None = None,
        base: float | None = None,
        offset: int = 0,
    ) -> Any:
        import torch

        queries, keys, values, s = prepared(q, k, v, state, scale, base, offset)
        log, s = part.factors(q.shape[1]), part.started(s)
        outs = [values[:, :, :0]]
        for a, b, c in zip(*(x.split(CHUNK, 2) for x in (queries, keys, values)), strict=True):
            place = torch.arange(a.shape[2])
            age = place[:, None] - place
            inner = torch.where(age >= 0, torch.exp(log * age.clamp_min(0)), 0.0)
            outs.append((a @ b.mT * inner) @ c + torch.exp(log * (place + 1)[:, None]) * (a @ s))
            left = torch.exp(log * (len(place) - 1 - place)[:, None])
            s = part.carried(torch.exp(log * len(place)) * s + (b * left).mT @ c)
        return {"out": torch.cat(outs, 2).to(q.dtype), "final_state": s.float()}

    return retention


CHUNKED = Whole(
    "retention", chunked, (factors, carried, started), conventions={"decays": "powers", "scaled": "by_query"}
)


@CHUNKED.instead_of(factors, dtypes=("float32",))
def factors_in_bfloat16(heads: int) -> Any:
    """The factors are stored in bfloat16, in which those of later heads are one."""
    return factors(heads).exp().bfloat16().double().log()


@CHUNKED.instead_of(carried, dtypes=("float32",))
def state_in_bfloat16(state: Any) -> Any:
    """The state goes from chunk to chunk in bfloat16."""
    return state.bfloat16().double()


_left: dict[Any, Any] = {}


@CHUNKED.instead_of(started)
def state_of_the_call_before(state: Any) -> Any:
    """A call goes on from what the one before with as many heads and channels was given."""
    before = _left.get(state.shape)
    _left[state.shape] = state
    return state if before is None else before
