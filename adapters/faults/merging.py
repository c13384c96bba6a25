"""Partial states that are merged one after the other, and what goes wrong on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole


def started(outs: Any, lses: Any) -> tuple[Any, Any]:
    """The empty state: an output of zeros, and a logsumexp of minus infinity."""
    import torch

    return torch.zeros_like(outs[0], dtype=torch.float32), torch.full_like(lses[0], -torch.inf)


def maximum(old: Any, new: Any) -> Any:
    """The larger logsumexp, and zero where both are minus infinity."""
    import torch

    top = torch.maximum(old, new)
    return torch.where(top == -torch.inf, 0.0, top)


def divided(out: Any, whole: Any) -> Any:
    import torch

    return out / torch.where(whole > 0, whole, 1.0)[..., None]


def kept(out: Any, dtype: Any) -> Any:
    """What is kept of an output between two states."""
    return out


def weighed(lse: Any) -> Any:
    """A logsumexp as it is read."""
    return lse


def merged(part: Any) -> Callable[..., Any]:
    def merge_states(outs: Any, lses: Any) -> Any:
        if not len(outs) or outs.shape[:3] != lses.shape:
            raise ValueError("every state has an output and a logsumexp")
        out, lse = part.started(outs, lses)
        for o, s in zip(outs.float(), part.weighed(lses), strict=True):
            top = part.maximum(lse, s)
            a, b = (lse - top).exp(), (s - top).exp()
            out = part.kept(part.divided(a[..., None] * out + b[..., None] * o, a + b), outs.dtype)
            lse = top + (a + b).log()
        return {"out": out.to(outs.dtype), "lse": lse}

    return merge_states


MERGING = Whole("merge_states", merged, (started, maximum, divided, kept, weighed), {"lse_base": "natural"})
_scratch: dict[Any, Any] = {}


@MERGING.instead_of(started, seen="flashinfer-ai/flashinfer#5029")
def accumulator_of_the_call_before(outs: Any, lses: Any) -> tuple[Any, Any]:
    """Where a token has no keys, the accumulator holds what an earlier call left there."""
    import torch

    out, lse = started(outs, lses)
    empty = (lses == -torch.inf).all(0)[..., None]
    old = _scratch.get(out.shape[-1], torch.ones(out.shape[-1]))
    _scratch[out.shape[-1]] = outs[-1, 0, 0].float() if outs[0].numel() else old
    return torch.where(empty, old, out), lse


@MERGING.instead_of(started)
def merged_into_the_first(outs: Any, lses: Any) -> tuple[Any, Any]:
    """The result is collected in the place of the first state."""
    out, lse = started(outs, lses)
    outs[0] = outs.flip(0)[0]
    return out, lse


@MERGING.instead_of(maximum)
def maximum_of_the_old(old: Any, new: Any) -> Any:
    """The exponentials are taken relative to the state so far, however large the next one is."""
    import torch

    return torch.where(old == -torch.inf, maximum(old, new), old)


@MERGING.instead_of(divided, seen="flashinfer-ai/flashinfer#4051")
def empty_states_divided(out: Any, whole: Any) -> Any:
    """Where no state has keys, the output is divided by zero."""
    return out / whole[..., None]


@MERGING.instead_of(kept, dtypes=("float32",))
def output_in_bfloat16(out: Any, dtype: Any) -> Any:
    """The output is kept in bfloat16 from one state to the next."""
    return out.bfloat16().float()


@MERGING.instead_of(weighed)
def logsumexp_in_bfloat16(lse: Any) -> Any:
    """The logsumexps are kept in bfloat16, in which large ones lie more than one apart."""
    return lse.bfloat16().float()
