"""State spaces in chunks of four tokens, and what goes wrong within chunks and from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.state_space import prepared
from .whole import Whole

CHUNK = 4


def sums(fading: Any) -> Any:
    """What fades from the start of a chunk on, [batch, heads, chunk]."""
    return fading.cumsum(-1)


def within(total: Any) -> Any:
    """By how much each token of a chunk has faded at each later one, [batch, heads, chunk, chunk]."""
    return (total[..., :, None] - total[..., None, :]).tril().exp().tril()


def left(total: Any) -> Any:
    """By how much the tokens of a chunk have faded at its end, [batch, heads, chunk]."""
    return (total[..., -1:] - total).exp()


def passed(state: Any, total: Any) -> Any:
    """The state before a chunk as it has faded at the end of it."""
    return total[..., -1:, None].exp() * state


def begun(state: Any) -> Any:
    """The states that the items of a batch begin with."""
    return state


def chunked(part: Any) -> Callable[..., Any]:
    def state_space(
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
        import torch

        dtype = x.dtype
        x, step, fading, b, c, besides, state = prepared(x, dt, a, b, c, d, dt_bias, state, softplus)
        state, scaled, outs = part.begun(state), step[..., None] * x, []
        for start in range(0, x.shape[2], CHUNK):
            here = slice(start, start + CHUNK)
            total, reading, writing = part.sums(fading[..., here]), c[:, :, here], b[:, :, here]
            read = (reading @ writing.mT * part.within(total)) @ scaled[:, :, here]
            outs.append(read + total[..., None].exp() * (reading @ state.mT))
            added = scaled[:, :, here].mT @ (writing * part.left(total)[..., None])
            state = part.passed(state, total) + added
        out = torch.cat(outs, 2) + besides if outs else x
        return {"out": out.to(dtype), "final_state": state}

    return state_space


CHUNKED = Whole("state_space", chunked, (sums, within, left, passed, begun))


@CHUNKED.instead_of(sums, seen="fla-org/flash-linear-attention#850")
def sums_over_heads(fading: Any) -> Any:
    """What fades is added up over the heads, and not over the tokens of a chunk."""
    return fading.cumsum(1)


@CHUNKED.instead_of(within)
def fades_before_masking(total: Any) -> Any:
    """Differences between a token and later ones are exponentiated and then hidden by a product with zero."""
    return (total[..., :, None] - total[..., None, :]).exp() * total.new_ones(2 * total.shape[-1:]).tril()


@CHUNKED.instead_of(left)
def left_with_own_step(total: Any) -> Any:
    """At the end of a chunk its tokens have faded by all of the chunk."""
    return total[..., -1:].exp().expand(total.shape)


@CHUNKED.instead_of(passed)
def chunks_do_not_fade(state: Any, total: Any) -> Any:
    """From one chunk to the next the state does not fade."""
    return state


@CHUNKED.instead_of(begun)
def first_state_for_all(state: Any) -> Any:
    """All items of a batch begin with the state of the last."""
    return state[-1:].expand(state.shape)
