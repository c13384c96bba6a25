"""Linear attention along a pack in tiles of four tokens, and what goes wrong where items and tiles begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.linear_attention import together
from .packed_delta_rule import TILE, spans, states, tiles
from .whole import Whole


def sums(gates: Any, own: slice, start: int) -> Any:
    """The gates of a tile, added up from its first token on: [heads, tile, key_dim]."""
    return gates[:, own].cumsum(1)


def last(total: Any, gates: Any, own: slice) -> Any:
    """What a state has faded by at the end of a tile: [heads, key_dim]."""
    return total[:, -1]


def before(kept: Any, item: int) -> Any:
    """The state that a tile goes on from: [heads, key_dim, value_dim]."""
    return kept[item]


def left(kept: Any, lens: Any) -> Any:
    """What the items leave."""
    return kept


def in_tiles(part: Any) -> Callable[..., Any]:
    def packed_linear_attention(
        q: Any, k: Any, v: Any, lens: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
    ) -> Any:
        import torch

        together(v, k, lens, state)
        factor = k.shape[2] ** -0.5 if scale is None else scale
        queries, keys, values = (x.float().transpose(0, 1) for x in (factor * q.float(), k, v))
        gates = torch.zeros(keys.shape) if gate is None else gate.float().transpose(0, 1).expand(keys.shape)
        kept = part.states(state, (len(lens), *k.shape[1:], v.shape[2]))
        out = torch.zeros_like(v)
        for item, (start, end) in enumerate(part.spans(lens)):
            for own in part.tiles(start, end):
                held, total = part.before(kept, item), part.sums(gates, own, start)
                fades = (total[:, :, None] - total[:, None]).clamp(max=0).exp()
                weights = (queries[:, own, None] * fades * keys[:, None, own]).sum(-1).tril()
                rows = weights @ values[:, own] + (queries[:, own] * total.exp()) @ held
                fade = part.last(total, gates, own)
                late = keys[:, own] * (fade[:, None] - total).exp()
                out[own] = rows.transpose(0, 1).to(v.dtype)
                kept[item] = fade.exp()[..., None] * held + late.mT @ values[:, own]
        return {"out": out, "final_state": part.left(kept, lens)}

    return packed_linear_attention


IN_TILES = Whole("packed_linear_attention", in_tiles, (spans, tiles, states, sums, last, before, left))

_spans: dict[tuple[int, int], Any] = {}
_states: dict[tuple[int, ...], Any] = {}


@IN_TILES.instead_of(spans)
def items_of_an_earlier_pack(lens: Any) -> list[tuple[int, int]]:
    """Where items begin is worked out once for a number of items and tokens, and kept for later calls."""
    return _spans.setdefault((len(lens), int(lens.sum())), spans(lens))


@IN_TILES.instead_of(tiles)
def last_tile_added_from_the_next_item(start: int, end: int) -> Iterator[slice]:
    """A last tile that is not full takes its tokens from the next item, whose rows are then written again."""
    return (slice(at, at + TILE) for at in range(start, end, TILE))


@IN_TILES.instead_of(tiles, seen="OpenNLPLab/lightning-attention#28")
def items_below_a_tile_not_computed(start: int, end: int) -> Iterator[slice]:
    """The number of tiles of an item is rounded down, so that what is behind the last whole one is not computed."""
    return (slice(at, at + TILE) for at in range(start, end - TILE + 1, TILE))


@IN_TILES.instead_of(sums, seen="vllm-project/vllm#23279")
def gates_from_the_tile_of_the_pack(gates: Any, own: slice, start: int) -> Any:
    """The first gates of an item are added up from where a tile of the pack begins, in the item before."""
    ahead = gates[:, start - start % TILE : start].sum(1, keepdim=True)
    return sums(gates, own, start) + (ahead if own.start == start else 0)


@IN_TILES.instead_of(last, seen="inclusionAI/cuLA#38")
def fades_of_a_full_tile(total: Any, gates: Any, own: slice) -> Any:
    """The state fades over a last tile as if it were full, by the gates of the tokens that lie behind its item."""
    return gates[:, own.start : own.start + TILE].sum(1)


@IN_TILES.instead_of(before)
def state_of_the_item_before(kept: Any, item: int) -> Any:
    """A tile goes on from the state that the item before has left, unless its item is the first."""
    return kept[max(item - 1, 0)]


@IN_TILES.instead_of(states, seen="vllm-project/vllm#53912")
def states_of_an_earlier_pack(state: Any, shape: tuple[int, ...]) -> Any:
    """Where no states are given, those that an earlier pack of the shape has begun with are found."""
    if state is not None:
        _states[shape] = state.clone()
    return states(_states.get(shape, state), shape)


@IN_TILES.instead_of(left, dtypes=("float32",))
def states_of_items_left_in_bfloat16(kept: Any, lens: Any) -> Any:
    """The states that are left are rounded to bfloat16."""
    return kept.bfloat16().float()


@IN_TILES.instead_of(left, seen="flashinfer-ai/flashinfer#3536")
def nothing_left_without_tokens(kept: Any, lens: Any) -> Any:
    """What an item without tokens leaves is never written."""
    return kept.masked_fill((lens == 0)[:, None, None, None], float("nan"))
