"""What a later segment asks of the state that a gated delta rule leaves, going back in chunks of four tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .recurrence_gradients import (
    PARTS,
    begun,
    carried,
    delta_in_chunks,
    final_gradient_in_the_last_chunk_alone,
    final_gradient_of_whole_chunks_alone,
)
from .whole import Whole


def delta_handed_back(part: Any) -> Callable[..., Any]:
    def gated_delta_rule_gradient(
        q: Any,
        k: Any,
        v: Any,
        beta: Any,
        d_out: Any,
        gate: Any = None,
        state: Any = None,
        *,
        d_final_state: Any,
        scale: float | None = None,
        normalise: bool = False,
    ) -> Any:
        if d_final_state.shape != (*v.shape[:2], k.shape[3], v.shape[3]):
            raise ValueError("the gradient of the final state is like the state")
        worth = part.begun(d_final_state, v.shape[2])
        return delta_in_chunks(part, q, k, v, beta, d_out, gate, state, worth, scale, normalise)

    return gated_delta_rule_gradient


HANDED_BACK = Whole("gated_delta_rule_gradient", delta_handed_back, (*PARTS, begun))


@HANDED_BACK.instead_of(begun)
def asked_of_whole_chunks_alone(worth: Any, length: int) -> Any:
    """The gradient of the final state of a delta rule is read where the last chunk is a whole one."""
    return final_gradient_of_whole_chunks_alone(worth, length)


@HANDED_BACK.instead_of(carried)
def asked_of_the_last_chunk_alone(worth: Any, later: bool) -> Any:
    """What the last chunk of a delta rule has of the final state is not handed to the chunks before it."""
    return final_gradient_in_the_last_chunk_alone(worth, later)


_asked: dict[Any, Any] = {}


@HANDED_BACK.instead_of(begun)
def asked_by_an_earlier_call(worth: Any, length: int) -> Any:
    """The gradient of the final state is that of the first call with states of its shape."""
    return _asked.setdefault(worth.shape, worth.clone())
