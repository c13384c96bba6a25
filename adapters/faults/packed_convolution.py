"""A short convolution along a pack in tiles of four tokens, and what goes wrong where items begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.convolution import control_convolution_by_shifts
from ..torch.packed import convolvable
from .packed_delta_rule import TILE, spans, tiles
from .whole import Whole


def states(state: Any, like: Any) -> Any:
    """What the items begin with, like `like`."""
    return like if state is None else state.clone()


def window(inputs: Any, before: Any) -> Any:
    """What the next tile of an item sees in front of its tokens, of inputs of this one and of what was before."""
    import torch

    return torch.cat((before, inputs), 1)[:, -before.shape[1] :]


def left(kept: Any, given: Any, lens: Any) -> Any:
    """What the items leave."""
    return kept


def in_tiles(part: Any) -> Callable[..., Any]:
    def packed_convolution(
        x: Any, weight: Any, lens: Any, bias: Any = None, state: Any = None, *, silu: bool = False
    ) -> Any:
        convolvable(x, weight, lens, state)
        kept = part.states(state, x.new_zeros(len(lens), x.shape[1], weight.shape[1] - 1))
        out = x.new_zeros(x.shape)
        for item, (start, end) in enumerate(part.spans(lens)):
            for own in part.tiles(start, end):
                inputs = x[own].T
                found = control_convolution_by_shifts(inputs[None], weight, bias, kept[item : item + 1], silu=silu)
                out[own], kept[item] = found["out"][0].T, part.window(inputs, kept[item])
        return {"out": out, "final_state": part.left(kept, state, lens)}

    return packed_convolution


IN_TILES = Whole("packed_convolution", in_tiles, (spans, tiles, states, window, left))

_spans: dict[tuple[int, int], Any] = {}
_states: dict[tuple[int, ...], Any] = {}


@IN_TILES.instead_of(spans)
def windows_of_the_first_call(lens: Any) -> list[tuple[int, int]]:
    """Where items begin is worked out once for a number of items and tokens, and kept for later calls."""
    return _spans.setdefault((len(lens), int(lens.sum())), spans(lens))


@IN_TILES.instead_of(tiles)
def windows_of_whole_tiles(start: int, end: int) -> Iterator[slice]:
    """A last tile that is not full takes its tokens from the next item, whose rows are then written again."""
    return (slice(at, at + TILE) for at in range(start, end, TILE))


@IN_TILES.instead_of(tiles)
def windows_without_the_last_tile(start: int, end: int) -> Iterator[slice]:
    """A last tile of an item that is not full is not computed, unless it is the only one."""
    return (own for own in tiles(start, end) if own.stop - own.start == TILE or own.start == start)


@IN_TILES.instead_of(window)
def windows_of_this_tile_alone(inputs: Any, before: Any) -> Any:
    """A tile that is shorter than the state hands on one that has forgotten what came before."""
    return window(inputs, 0 * before)


@IN_TILES.instead_of(states, seen="vllm-project/vllm#53912")
def windows_of_an_earlier_call(state: Any, like: Any) -> Any:
    """Where no states are given, those that an earlier pack of the shape has begun with are found."""
    if state is not None:
        _states[tuple(like.shape)] = state.clone()
    return states(_states.get(tuple(like.shape), state), like)


@IN_TILES.instead_of(states)
def windows_written_over(state: Any, like: Any) -> Any:
    """States that are given are overwritten by those that are left."""
    return like if state is None else state


@IN_TILES.instead_of(left, seen="flashinfer-ai/flashinfer#3536")
def no_window_left_without_tokens(kept: Any, given: Any, lens: Any) -> Any:
    """What an item without tokens leaves is never written."""
    return kept.masked_fill((lens == 0)[:, None, None], float("nan"))


def added(total: Any, of_item: Any) -> Any:
    """The gradient of what all items share, with what one of them gives."""
    return total + of_item


def back_item_by_item(part: Any) -> Callable[..., Any]:
    def packed_convolution_gradient(
        x: Any,
        weight: Any,
        lens: Any,
        d_out: Any,
        bias: Any = None,
        state: Any = None,
        *,
        silu: bool = False,
    ) -> Any:
        import torch

        convolvable(x, weight, lens, state)
        if d_out.shape != x.shape:
            raise ValueError("every token has an output")
        starts = x.new_zeros(len(lens), x.shape[1], weight.shape[1] - 1) if state is None else state
        d_x, d_states = torch.zeros_like(x), torch.zeros_like(starts)
        shared = torch.zeros(weight.shape), torch.zeros(x.shape[1])
        for item, (start, end) in enumerate(part.spans(lens)):
            b = x.new_zeros(x.shape[1]) if bias is None else bias
            given = [x[start:end].T[None], weight, b, starts[item : item + 1]]
            leaves = [y.detach().float().requires_grad_() for y in given]
            with torch.enable_grad():
                out = control_convolution_by_shifts(*leaves, silu=silu)["out"]
                d, *of_item, d_state = torch.autograd.grad(out, leaves, d_out[start:end].T[None].float())
            d_x[start:end], d_states[item] = d[0].T, d_state[0]
            shared = tuple(part.added(total, one) for total, one in zip(shared, of_item, strict=True))
        found = {"d_x": d_x, "d_weight": shared[0].to(x.dtype)}
        found |= {} if bias is None else {"d_bias": shared[1].to(x.dtype)}
        return found | ({} if state is None else {"d_state": d_states})

    return packed_convolution_gradient


BACK = Whole("packed_convolution_gradient", back_item_by_item, (spans, added))


@BACK.instead_of(added, dtypes=("float32",))
def shared_by_items_in_half_precision(total: Any, of_item: Any) -> Any:
    """What the items give to weights and bias is added up in bfloat16."""
    return added(total, of_item).bfloat16().float()


@BACK.instead_of(spans)
def gradients_of_items_of_the_first_call(lens: Any) -> list[tuple[int, int]]:
    """Going back, items begin where they began in the first call with as many items and tokens."""
    return windows_of_the_first_call(lens)
