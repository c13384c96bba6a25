"""Attention in a ring of two ranks, here in turns in one process, and what goes wrong with its steps and its order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from ..controls.attention import CONVENTIONS, LEAST
from ..controls.ring import State, added, arrived, backward, forward, hidden, in_turns, merged, shards, taken
from ..torch.ranks import Places, in_order, joined, zigzag
from .whole import Whole

RANKS = 2


def steps(count: int) -> int:
    """How many shards of keys a rank sees."""
    return count


def order(places: Places) -> Places:
    """Where the outputs of each rank belong."""
    return places


def positions(places: Places, given: Any) -> list[Any]:
    """The positions of each rank's tokens by which they are hidden."""
    return list(given)


def sent_home(found: Sequence[Any]) -> list[Any]:
    """Of each rank, the gradients of its queries, keys and values, when those have come home."""
    return list(found)


def ring(part: Any) -> Callable[..., Any]:
    def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
        seen = {"length": k.shape[2], "causal": causal, "left": None, "right": None}
        at, (*arrays, rows, columns) = shards(RANKS, zigzag, q, k, v)
        columns = part.positions(at[1], columns)
        rows = [x + k.shape[2] - q.shape[2] for x in part.positions(at[0], [x - k.shape[2] + q.shape[2] for x in rows])]
        options = {"count": part.steps(RANKS), "scale": q.shape[3] ** -0.5 if scale is None else scale, **seen}
        inner = SimpleNamespace(hidden=part.hidden, merged=part.merged)
        own = zip(*arrays, rows, columns, strict=True)
        found = in_turns([forward(inner, *given, **options) for given in own])
        return joined([out for out, _ in found], part.order(at[0]), 2)[:, :, : q.shape[2]]

    return attention


RING = Whole("attention", ring, (steps, order, positions, hidden, merged), CONVENTIONS)


def ring_backward(part: Any) -> Callable[..., Any]:
    def attention_gradient(
        q: Any, k: Any, v: Any, d_out: Any, *, causal: bool = False, scale: float | None = None
    ) -> Any:
        seen = {"length": k.shape[2], "causal": causal, "left": None, "right": None}
        at, given = shards(RANKS, zigzag, q, k, v, d_out)
        options = {"count": RANKS, "scale": q.shape[3] ** -0.5 if scale is None else scale, **seen}
        inner = SimpleNamespace(hidden=part.hidden, arrived=part.arrived, taken=part.taken, added=part.added)
        found = part.sent_home(in_turns([backward(inner, *own, **options) for own in zip(*given, strict=True)]))
        whole = ((at[0], q), (at[1], k), (at[1], v))
        parts = [joined([one[i] for one in found], own, 2)[:, :, : x.shape[2]] for i, (own, x) in enumerate(whole)]
        return dict(zip(("d_q", "d_k", "d_v"), parts, strict=True))

    return attention_gradient


GRADIENT = {name: CONVENTIONS[name] for name in ("causal_alignment", "empty_row", "grouping")}
BACKWARD = Whole("attention_gradient", ring_backward, (hidden, arrived, taken, added, sent_home), GRADIENT)


def by_local_position(rows: Any, columns: Any, length: int, causal: bool, **window: Any) -> Any:
    """What is hidden by the number of a token in its shard, whatever the shard is."""
    import torch

    local = torch.arange(len(rows))[:, None] < torch.arange(len(columns))
    return (columns >= length) | (local & causal)


@RING.instead_of(hidden, seen="zhuzilin/ring-flash-attention#15")
def ring_hides_by_local_position(rows: Any, columns: Any, length: int, causal: bool, **window: Any) -> Any:
    """Every shard of keys is hidden by the causal flag as if it began where the queries of the rank do."""
    return by_local_position(rows, columns, length, causal)


@RING.instead_of(hidden, seen="NVIDIA/TransformerEngine#3331")
def ring_keeps_padding(rows: Any, columns: Any, length: int, **seen: Any) -> Any:
    """What fills the keys up to equal shards takes part in attention."""
    return hidden(rows, columns, int(columns.max()) + 1, **seen)


@RING.instead_of(positions)
def ring_forgets_zigzag(places: Places, given: Any) -> list[Any]:
    """Tokens lie in zigzag over the ranks, and are hidden as if they were one run after the other."""
    import torch

    first = int(given[0].min())
    return [torch.tensor(own) + first for own in in_order(sum(map(len, places)), len(places))]


@RING.instead_of(order)
def ring_returns_shards_in_order(places: Places) -> Places:
    """Tokens lie in zigzag over the ranks, and outputs are put together as if they were one run after the other."""
    return in_order(sum(map(len, places)), len(places))


@RING.instead_of(steps)
def ring_ends_one_step_early(count: int) -> int:
    """The last shard of keys that comes round is not seen."""
    return count - 1


@RING.instead_of(merged)
def ring_averages_shards(state: State, s: Any, values: Any) -> State:
    """Each shard's weights are divided by their own sum, and the outputs added, whatever their logsumexps are."""
    import torch

    top, total, out = state
    p = torch.exp(s - s.amax(-1, keepdim=True).clamp_min(LEAST))
    share = p / p.sum(-1, keepdim=True).clamp_min(1e-30)
    return top, total + (share.sum(-1, keepdim=True) > 0), out + share @ values


@RING.instead_of(merged)
def ring_keeps_the_first_maximum(state: State, s: Any, values: Any) -> State:
    """Where a later shard has the greater score, what was summed up before it is not rescaled."""
    import torch

    top, total, out = state
    new = torch.maximum(top, s.amax(-1, keepdim=True))
    p = torch.exp(s - new.clamp_min(LEAST))
    return new, total + p.sum(-1, keepdim=True), out + p @ values


@BACKWARD.instead_of(hidden)
def ring_backward_hides_by_local_position(rows: Any, columns: Any, length: int, causal: bool, **window: Any) -> Any:
    """The backward pass hides every shard of keys as if it began where the queries of the rank do."""
    return by_local_position(rows, columns, length, causal)


@BACKWARD.instead_of(arrived, seen="huggingface/diffusers#14265")
def ring_backward_of_the_first_shard(step: int, own: Any, shard: Any) -> Any:
    """Every step of the backward pass takes the keys and values that the rank began with."""
    return own


@BACKWARD.instead_of(taken, seen="pytorch/pytorch#185493")
def ring_backward_length_of_another_step(step: int, length: int) -> slice:
    """Every step of the backward pass takes the length of a balanced one, which goes through half a shard."""
    return slice(length // 2)


@BACKWARD.instead_of(added, seen="ring-attention-pytorch 0.5.20")
def ring_backward_of_own_queries(step: int, total: Any, x: Any) -> Any:
    """Keys and values have gradients from the queries of their own rank alone, and those of the others are dropped."""
    return total if step else x


@BACKWARD.instead_of(sent_home)
def ring_backward_not_sent_home(found: Sequence[Any]) -> list[Any]:
    """Gradients of keys and values stay where the ring has ended, one rank before their own."""
    return [(d_q, *found[(rank + 1) % RANKS][1:]) for rank, (d_q, _, _) in enumerate(found)]


@BACKWARD.instead_of(sent_home, seen="ring-attention-pytorch 0.5.20")
def ring_backward_taken_apart_wrongly(found: Sequence[Any]) -> list[Any]:
    """What was sent and what was received are taken for the gradients of keys and values, each of them both summed."""
    if found[0][1].shape != found[0][2].shape:
        return list(found)
    both = [d_k + d_v for _, d_k, d_v in found]
    return [(d_q, both[rank], both[rank - 1]) for rank, (d_q, _, _) in enumerate(found)]
