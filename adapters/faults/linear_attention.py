"""Linear attention in chunks of tokens, and what goes wrong within chunks and from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.linear_attention import prepared
from .whole import Whole

SIZES = {f"chunks of {n}": n for n in (4, 2, 8, 16, 32, 64)}
"""How many tokens are taken at a time; the first is what a fault is declared with."""


def totals(gate: Any) -> Any:
    """The sums of the gates from the start of a chunk, [batch, heads, chunk, key_dim]."""
    return gate.cumsum(2)


def weights(q: Any, k: Any, total: Any) -> Any:
    """The products of the queries and keys of a chunk, faded by what is between them, [batch, heads, chunk, chunk]."""
    fades = (total[:, :, :, None] - total[:, :, None]).clamp(max=0).exp()
    return (q[:, :, :, None] * fades * k[:, :, None]).sum(-1).tril()


def late(k: Any, total: Any, n: int) -> Any:
    """The keys of a chunk as they have faded at its end."""
    return k * (total[:, :, -1:] - total).exp()


def faded(state: Any, total: Any) -> Any:
    """The state before a chunk as it has faded at its end."""
    return total[:, :, -1, :, None].exp() * state


def begun(state: Any) -> Any:
    """The states that the items of a batch begin with."""
    return state


def carried(state: Any, new: Any, full: bool) -> Any:
    """The state after a chunk, which may be `full`, from what has faded of the one before and what is new."""
    return state + new


def chunked(part: Any, size: int) -> Callable[..., Any]:
    def linear_attention(
        q: Any,
        k: Any,
        v: Any,
        gate: Any = None,
        state: Any = None,
        key_sum: Any = None,
        *,
        scale: float | None = None,
        feature_map: str = "identity",
        normalise: bool = False,
        eps: float = 1e-6,
    ) -> Any:
        import torch

        dtype = v.dtype
        q, k, v, gate, state, key_sum = prepared(q, k, v, gate, state, key_sum, scale, feature_map)
        v = torch.cat((v, torch.ones(*v.shape[:3], 1)), -1)  # the sum of keys is the state of values of one
        state, outs = part.begun(torch.cat((state, key_sum[..., None]), -1)), []
        for start in range(0, k.shape[2], size):
            here = slice(start, start + size)
            keys, total = k[:, :, here], part.totals(gate[:, :, here])
            outs.append(
                part.weights(q[:, :, here], keys, total) @ v[:, :, here] + (q[:, :, here] * total.exp()) @ state
            )
            new = part.late(keys, total, size).mT @ v[:, :, here]
            state = part.carried(part.faded(state, total), new, keys.shape[2] == size)
        out = torch.cat(outs, 2) if outs else v
        out = out[..., :-1] / (out[..., -1:] + eps) if normalise else out[..., :-1]
        return {"out": out.to(dtype), "final_state": state[..., :-1], "final_sum": state[..., -1]}

    return linear_attention


CHUNKED = Whole(
    "linear_attention",
    chunked,
    (totals, weights, late, faded, begun, carried),
    {"eps_place": "to_normaliser"},
    sizes=SIZES,
)
_last: dict[Any, Any] = {}


@CHUNKED.instead_of(totals, seen="fla-org/flash-linear-attention#850")
def totals_over_heads(gate: Any) -> Any:
    """The gates are added up over the heads, and not over the tokens of a chunk."""
    return gate.cumsum(1)


@CHUNKED.instead_of(weights)
def fading_taken_apart(q: Any, k: Any, total: Any) -> Any:
    """Queries fade by the sums of the gates and keys grow by them, which overflows where gates are strong."""
    return (q * total.exp() @ (k * (-total).exp()).mT).tril()


@CHUNKED.instead_of(weights)
def first_token_for_all(q: Any, k: Any, total: Any) -> Any:
    """Within a chunk the keys fade as the first of them does."""
    return (q * (total - total[:, :, :1]).exp() @ k.mT).tril()


@CHUNKED.instead_of(late)
def late_as_if_full(k: Any, total: Any, n: int) -> Any:
    """The keys of a last chunk that is not full fade as long as those of a full one."""
    missing = n - k.shape[2]
    return k * (total[:, :, -1:] - total + missing * total[:, :, -1:] / k.shape[2]).exp()


@CHUNKED.instead_of(faded)
def linear_chunks_do_not_fade(state: Any, total: Any) -> Any:
    """The state does not fade from one chunk to the next, but for the queries that read it."""
    return state


@CHUNKED.instead_of(faded)
def linear_chunks_fade_by_one_gate(state: Any, total: Any) -> Any:
    """The state fades by the gate of the first token of a chunk, and not by those of all."""
    return total[:, :, 0, :, None].exp() * state


@CHUNKED.instead_of(late)
def linear_keys_do_not_fade(k: Any, total: Any, n: int) -> Any:
    """Keys are added to the state as they are, however far from the end of the chunk."""
    return k


@CHUNKED.instead_of(begun)
def state_goes_on_through_the_batch(state: Any) -> Any:
    """The sum of the states of the items before is what an item begins with."""
    return state.cumsum(0)


@CHUNKED.instead_of(begun, seen="vllm-project/vllm#53912")
def state_left_in_its_slot(state: Any) -> Any:
    """Where all states are zero, what the last call of the same shape began with is found in their place."""
    if state.any():
        _last[state.shape] = state.clone()
    return _last.get(state.shape, state)


@CHUNKED.instead_of(carried)
def partial_chunk_forgotten(state: Any, new: Any, full: bool) -> Any:
    """A last chunk that is not full is not added to the state that is left."""
    return state + new if full else state


@CHUNKED.instead_of(carried, dtypes=("float32",))
def linear_state_in_half_precision(state: Any, new: Any, full: bool) -> Any:
    """The state is stored in bfloat16 after every chunk."""
    return (state + new).bfloat16().float()
