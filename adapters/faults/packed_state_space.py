"""State spaces along a pack in tiles of four tokens, and what goes wrong where items and tiles begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.state_space import prepared, together
from .packed_delta_rule import TILE, spans, states, tiles
from .packed_linear_attention import before, last, left, sums
from .whole import Whole


def in_tiles(part: Any) -> Callable[..., Any]:
    def packed_state_space(
        x: Any,
        dt: Any,
        a: Any,
        b: Any,
        c: Any,
        lens: Any,
        d: Any = None,
        dt_bias: Any = None,
        state: Any = None,
        *,
        softplus: bool = False,
    ) -> Any:
        import torch

        together(x, dt, lens, state)
        turned, steps, writing, reading = (y.transpose(0, 1)[None] for y in (x, dt, b, c))
        found = prepared(turned, steps, a, writing, reading, d, dt_bias, None, softplus)
        values, step, fading, keys, queries = (y[0] for y in found[:5])
        scaled, out = step[..., None] * values, torch.zeros(values.shape)
        kept = part.states(state, (len(lens), *x.shape[1:], b.shape[2]))
        for item, (start, end) in enumerate(part.spans(lens)):
            for own in part.tiles(start, end):
                held, total = part.before(kept, item), part.sums(fading, own, start)
                fades = (total[:, :, None] - total[:, None]).tril().exp().tril()
                read = total[..., None].exp() * (queries[:, own] @ held.mT)
                out[:, own] = (queries[:, own] @ keys[:, own].mT * fades) @ scaled[:, own] + read
                fade = part.last(total, fading, own)
                late = keys[:, own] * (fade[:, None] - total)[..., None].exp()
                kept[item] = fade.exp()[:, None, None] * held + scaled[:, own].mT @ late
        out = out if d is None else out + d[:, None, None] * values
        return {"out": out.transpose(0, 1).to(x.dtype), "final_state": part.left(kept, lens)}

    return packed_state_space


IN_TILES = Whole("packed_state_space", in_tiles, (spans, tiles, states, sums, last, before, left))

_spans: dict[tuple[int, int], Any] = {}
_states: dict[tuple[int, ...], Any] = {}


@IN_TILES.instead_of(spans)
def items_of_a_pack_before(lens: Any) -> list[tuple[int, int]]:
    """Where items begin is worked out once for a number of items and tokens, and kept for later calls."""
    return _spans.setdefault((len(lens), int(lens.sum())), spans(lens))


@IN_TILES.instead_of(tiles)
def last_tile_written_into_the_next_item(start: int, end: int) -> Iterator[slice]:
    """A last tile that is not full takes its tokens from the next item, whose rows are then written again."""
    return (slice(at, at + TILE) for at in range(start, end, TILE))


@IN_TILES.instead_of(sums, seen="vllm-project/vllm#23279")
def steps_from_the_tile_of_the_pack(fading: Any, own: slice, start: int) -> Any:
    """The first steps of an item are added up from where a tile of the pack begins, in the item before."""
    ahead = fading[:, start - start % TILE : start].sum(1, keepdim=True)
    return sums(fading, own, start) + (ahead if own.start == start else 0)


@IN_TILES.instead_of(last)
def fades_of_a_whole_tile(total: Any, fading: Any, own: slice) -> Any:
    """The state fades over a last tile as if it were full, by the steps of the tokens that lie behind its item."""
    return fading[:, own.start : own.start + TILE].sum(1)


@IN_TILES.instead_of(before, seen="sgl-project/sglang#15829")
def state_of_an_item_in_front(kept: Any, item: int) -> Any:
    """A tile goes on from the state that the item before has left, unless its item is the first."""
    return kept[max(item - 1, 0)]


@IN_TILES.instead_of(states)
def states_of_a_pack_before(state: Any, shape: tuple[int, ...]) -> Any:
    """Where no states are given, those that an earlier pack of the shape has begun with are found."""
    if state is not None:
        _states[shape] = state.clone()
    return states(_states.get(shape, state), shape)


@IN_TILES.instead_of(left, dtypes=("float32",))
def packed_states_left_in_bfloat16(kept: Any, lens: Any) -> Any:
    """The states that are left are rounded to bfloat16."""
    return kept.bfloat16().float()


@IN_TILES.instead_of(left)
def packed_states_not_left_without_tokens(kept: Any, lens: Any) -> Any:
    """What an item without tokens leaves is never written."""
    return kept.masked_fill((lens == 0)[:, None, None, None], float("nan"))
