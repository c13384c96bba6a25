"""The gated delta rule along a pack in tiles of four tokens, and what goes wrong where items begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.delta_rule import control_delta_rule_at_once, together
from .whole import Whole

TILE = 4


def spans(lens: Any) -> list[tuple[int, int]]:
    """Where each item begins, and where the next one does."""
    ends = lens.cumsum(0).tolist()
    return [*zip([0, *ends[:-1]], ends, strict=True)]


def tiles(start: int, end: int) -> Iterator[slice]:
    """The tokens of an item that are taken together."""
    return (slice(at, min(at + TILE, end)) for at in range(start, end, TILE))


def states(state: Any, shape: tuple[int, ...]) -> Any:
    """What the items begin with: [items, heads, key_dim, value_dim]."""
    import torch

    return torch.zeros(shape) if state is None else state.clone()


def outputs(v: Any) -> Any:
    """The array that the items write their rows to."""
    import torch

    return torch.zeros_like(v)


def left(kept: Any, lens: Any) -> Any:
    """What the items leave."""
    return kept


def in_tiles(part: Any) -> Callable[..., Any]:
    def packed_delta_rule(
        q: Any,
        k: Any,
        v: Any,
        beta: Any,
        lens: Any,
        gate: Any = None,
        state: Any = None,
        *,
        scale: float | None = None,
        normalise: bool = False,
    ) -> Any:
        together(v, k, lens, state)
        kept = part.states(state, (len(lens), v.shape[1], k.shape[2], v.shape[2]))
        out = part.outputs(v)
        for item, (start, end) in enumerate(part.spans(lens)):
            for own in part.tiles(start, end):
                arrays = [x[own].transpose(0, 1)[None] for x in (q, k, v, beta)]
                fades = None if gate is None else gate[own].transpose(0, 1)[None]
                found = control_delta_rule_at_once(
                    *arrays, gate=fades, state=kept[item : item + 1], scale=scale, normalise=normalise
                )
                out[own], kept[item] = found["out"][0].transpose(0, 1), found["final_state"][0]
        return {"out": out, "final_state": part.left(kept, lens)}

    return packed_delta_rule


IN_TILES = Whole("packed_delta_rule", in_tiles, (spans, tiles, states, outputs, left))

_spans: dict[tuple[int, int], Any] = {}
_states: dict[tuple[int, ...], Any] = {}


@IN_TILES.instead_of(spans)
def items_of_the_first_call(lens: Any) -> list[tuple[int, int]]:
    """Where items begin is worked out once for a number of items and tokens, and kept for later calls."""
    return _spans.setdefault((len(lens), int(lens.sum())), spans(lens))


@IN_TILES.instead_of(tiles)
def tiles_of_the_pack(start: int, end: int) -> Iterator[slice]:
    """Tiles begin at multiples of their size, and read tokens of the item before again."""
    return (slice(at, min(at + TILE, end)) for at in range(start - start % TILE, end, TILE))


@IN_TILES.instead_of(tiles)
def last_tile_filled_from_the_next_item(start: int, end: int) -> Iterator[slice]:
    """A last tile that is not full takes its tokens from the next item, whose rows are then written again."""
    return (slice(at, at + TILE) for at in range(start, end, TILE))


@IN_TILES.instead_of(tiles)
def short_items_passed_over(start: int, end: int) -> Iterator[slice]:
    """An item of less than a tile is not computed."""
    return tiles(start, end) if end - start >= TILE else iter(())


@IN_TILES.instead_of(states, seen="vllm-project/vllm#53912")
def states_of_an_earlier_call(state: Any, shape: tuple[int, ...]) -> Any:
    """Where no states are given, those that an earlier pack of the shape has begun with are found."""
    if state is not None:
        _states[shape] = state.clone()
    return states(_states.get(shape, state), shape)


@IN_TILES.instead_of(left, dtypes=("float32",))
def states_left_in_half_precision(kept: Any, lens: Any) -> Any:
    """The states that are left are rounded to bfloat16."""
    return kept.bfloat16().float()


@IN_TILES.instead_of(left, seen="flashinfer-ai/flashinfer#3536")
def no_state_left_without_tokens(kept: Any, lens: Any) -> Any:
    """What an item without tokens leaves is never written."""
    return kept.masked_fill((lens == 0)[:, None, None, None], float("nan"))
