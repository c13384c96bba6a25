"""Tokens through experts in blocks of sorted pairs, and what goes wrong with blocks, memory and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.experts import placed
from .whole import Whole

TILE = 4


def order_of(pairs: Any) -> Any:
    """The pairs of token and choice, sorted by their experts."""
    return pairs.argsort(stable=True)


def first_tokens(offsets: list[int]) -> list[int]:
    """Where the blocks of the experts begin."""
    return offsets


def padded(rows: Any) -> Any:
    """The tokens of a block, filled up to whole tiles."""
    import torch

    return torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % TILE))


def activated(gate: Any, up: Any) -> Any:
    import torch

    return torch.nn.functional.silu(gate) * up


def room(pairs: int, dim: int) -> Any:
    """Where experts leave what they make."""
    import torch

    return torch.zeros(pairs, dim)


def added(weighed: Any) -> Any:
    """The sum over the choices of [tokens, k, dim]."""
    return weighed.sum(1)


def blocks(part: Any) -> Callable[..., Any]:
    def routed_experts(x: Any, chosen: Any, weights: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
        import torch

        if chosen.shape != weights.shape:
            raise ValueError("every choice has a weight")
        pairs = chosen.flatten()
        order = part.order_of(pairs)
        counts = torch.bincount(pairs, minlength=len(w_gate)).tolist()
        starts = part.first_tokens([sum(counts[:expert]) for expert in range(len(counts))])
        rows, made = x.float()[order // chosen.shape[1]], part.room(len(pairs), x.shape[1])
        for expert, (start, count) in enumerate(zip(starts, counts, strict=True)):
            if count:
                tile = part.padded(rows[start : start + count])
                inner = part.activated(tile @ w_gate[expert].float(), tile @ w_up[expert].float())
                made[start : start + count] = (inner @ w_down[expert].float())[:count]
        back = torch.empty_like(made)
        back[order] = made
        return part.added(back.unflatten(0, chosen.shape) * weights.float()[..., None]).to(x.dtype)

    return routed_experts


BLOCKS = Whole("routed_experts", blocks, (order_of, first_tokens, padded, activated, room, added))


@BLOCKS.instead_of(order_of)
def sorted_within_tiles(pairs: Any) -> Any:
    """Pairs are sorted sixteen at a time, and not all of them."""
    import torch

    starts = range(0, len(pairs), 16)
    return torch.cat([start + pairs[start : start + 16].argsort(stable=True) for start in starts])


@BLOCKS.instead_of(first_tokens)
def blocks_begin_at_whole_tiles(offsets: list[int]) -> list[int]:
    """Blocks begin where the tiles of the one before end, though pairs are sorted without gaps."""
    return [start // TILE * TILE for start in offsets]


@BLOCKS.instead_of(padded)
def short_blocks_cut(rows: Any) -> Any:
    """Tokens of a block beyond whole tiles take part with zeros, where there is a whole one."""
    import torch

    whole = len(rows) // TILE * TILE or len(rows)
    return torch.nn.functional.pad(rows[:whole], (0, 0, 0, len(rows) - whole))


@BLOCKS.instead_of(activated, dtypes=("float32",))
def activated_in_half_precision(gate: Any, up: Any) -> Any:
    """What is between the matrices is stored in bfloat16."""
    return activated(gate, up).bfloat16().float()


_rooms: dict[Any, Any] = {}


@BLOCKS.instead_of(added)
def added_to_an_earlier_call(weighed: Any) -> Any:
    """Outputs are added to what an earlier call of the same shape has left."""
    found = added(weighed)
    before = _rooms.get(found.shape)
    _rooms[found.shape] = found
    return found if before is None else found + before


@BLOCKS.instead_of(added, dtypes=("float32",))
def choices_added_in_half_precision(weighed: Any) -> Any:
    """Choices are added up in bfloat16, one by one."""
    total = weighed[:, 0].bfloat16()
    for choice in range(1, weighed.shape[1]):
        total = total + weighed[:, choice].bfloat16()
    return total.float()


def capacity_of(pairs: Any, experts: int) -> Any:
    """How many pairs each expert of this rank has room for."""
    import torch

    return torch.bincount(pairs[pairs >= 0], minlength=experts)


def rank(part: Any) -> Callable[..., Any]:
    def expert_parallel(
        x: Any, chosen: Any, weights: Any, w_gate: Any, w_up: Any, w_down: Any, *, expert_map: Any
    ) -> Any:
        pairs = part.placed(chosen, expert_map).flatten()
        made, places = part.room(len(pairs), x.shape[1]), part.capacity_of(pairs, len(w_gate))
        for expert in range(len(w_gate)):
            sent = (pairs == expert).nonzero()[: places[expert], 0]
            rows = x.float()[sent // chosen.shape[1]]
            made[sent] = activated(rows @ w_gate[expert].float(), rows @ w_up[expert].float()) @ w_down[expert].float()
        return (made.unflatten(0, chosen.shape) * weights.float()[..., None]).sum(1).to(x.dtype)

    return expert_parallel


RANK = Whole("routed_experts", rank, (placed, room, capacity_of))

_left: dict[Any, Any] = {}


@RANK.instead_of(room)
def pairs_of_others_left_as_they_were(pairs: int, dim: int) -> Any:
    """Pairs of other ranks are not written, and the sum takes what an earlier call of the shape has left there."""
    return _left.setdefault((pairs, dim), room(pairs, dim))


@RANK.instead_of(capacity_of)
def room_for_an_even_share(pairs: Any, experts: int) -> Any:
    """An expert has room for an even share of all pairs, and what is beyond it is dropped."""
    import torch

    return torch.full((experts,), max(len(pairs) // experts, 1))


@RANK.instead_of(placed)
def map_in_four_bits(chosen: Any, expert_map: Any) -> Any:
    """Numbers of all experts are kept in four bits."""
    return placed(chosen.where(chosen < 0, chosen % 16), expert_map)
