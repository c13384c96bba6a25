"""The delta rule with a gate for each channel, in chunks of four tokens, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.delta_rule import prepared
from .whole import Whole

CHUNK = 4


def between(x: Any, k: Any, total: Any) -> Any:
    """The products of queries or keys with the keys of a chunk, faded by what is between, [..., chunk, chunk]."""
    fades = (total[:, :, :, None] - total[:, :, None]).clamp(max=0).exp()
    return (x[:, :, :, None] * fades * k[:, :, None]).sum(-1)


def written(system: Any, wanted: Any) -> Any:
    """The values that the tokens of a chunk write, from what they would write without each other."""
    import torch

    return torch.linalg.solve_triangular(system, wanted, upper=False)


def found(k: Any, total: Any, state: Any) -> Any:
    """What the state before a chunk holds for its keys."""
    return (k * total.exp()) @ state


def late(k: Any, total: Any) -> Any:
    """The keys of a chunk as they have faded at its end."""
    return k * (total[:, :, -1:] - total).exp()


def begun(state: Any) -> Any:
    """The states that the items of a batch begin with."""
    return state


def chunked(part: Any) -> Callable[..., Any]:
    def kimi_delta_attention(
        q: Any,
        k: Any,
        v: Any,
        gate: Any,
        beta: Any,
        state: Any = None,
        *,
        scale: float | None = None,
        normalise: bool = False,
    ) -> Any:
        import torch

        dtype, length, factor = v.dtype, k.shape[2], k.shape[3] ** -0.5 if scale is None else scale
        q, k, v, beta, gate, state = prepared(q, k, v, beta, gate, state, normalise)
        state, outs = part.begun(state), []
        for start in range(0, length, CHUNK):
            here = slice(start, start + CHUNK)
            queries, keys, total, share = (
                q[:, :, here],
                k[:, :, here],
                gate[:, :, here].cumsum(2),
                beta[..., here, None],
            )
            system = torch.eye(keys.shape[2]) + share * part.between(keys, keys, total).tril(-1)
            values = part.written(system, share * (v[:, :, here] - part.found(keys, total, state)))
            outs.append(part.between(queries, keys, total).tril() @ values + (queries * total.exp()) @ state)
            state = total[:, :, -1, :, None].exp() * state + part.late(keys, total).mT @ values
        out = factor * torch.cat(outs, 2) if outs else v
        return {"out": out.to(dtype), "final_state": state}

    return kimi_delta_attention


CHUNKED = Whole("kimi_delta_attention", chunked, (between, written, found, late, begun))


@CHUNKED.instead_of(between)
def one_channel_for_all_between(x: Any, k: Any, total: Any) -> Any:
    """Within a chunk all channels fade by the gates of the first, as if there were one for each head."""
    first = total[..., 0]
    return x @ k.mT * (first[..., :, None] - first[..., None, :]).clamp(max=0).exp()


@CHUNKED.instead_of(between)
def channels_taken_apart(x: Any, k: Any, total: Any) -> Any:
    """Keys grow by the sums of the gates from the start of the chunk, which overflows where gates are strong."""
    return x * total.exp() @ (k * (-total).exp()).mT


@CHUNKED.instead_of(written)
def second_order_lost(system: Any, wanted: Any) -> Any:
    """What a token writes is taken out of those after it once, and not what follows of that."""
    import torch

    return wanted - (system - torch.eye(system.shape[-1])) @ wanted


@CHUNKED.instead_of(found)
def found_unfaded(k: Any, total: Any, state: Any) -> Any:
    """What the state before a chunk holds for its keys is looked up as if nothing had faded since."""
    return k @ state


@CHUNKED.instead_of(late)
def late_without_first_gate(k: Any, total: Any) -> Any:
    """At the end of a chunk its first key has not faded."""
    import torch

    return torch.cat((k[:, :, :1], (k * (total[:, :, -1:] - total).exp())[:, :, 1:]), 2)


@CHUNKED.instead_of(begun)
def states_of_items_exchanged(state: Any) -> Any:
    """The items of a batch begin with the states of their neighbours."""
    return state.roll(1, 0)
