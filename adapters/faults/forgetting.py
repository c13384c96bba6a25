"""Attention that forgets in tiles of keys, and what goes wrong with running sums of gates, tiles and narrow sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import positions
from ..controls.forgetting import CONVENTIONS, fitting
from .whole import Whole

TILE = 16
ALONE: Any = {"dtypes": ("float32",)}


def summed(gate: Any) -> Any:
    """The running sums of gates along the tokens."""
    return gate.cumsum(2)


def faded(passed: Any, tile: slice) -> Any:
    """What scores of the keys of a tile are lowered by: [batch, heads, queries, keys]."""
    return passed[..., None] - passed[:, :, None, tile]


def begun(start: int, length: int, window_left: int | None) -> bool:
    """Whether any query may see a key of the tile that begins there."""
    return True


def carried(total: Any, out: Any, fade: Any) -> tuple[Any, Any]:
    """Sums of earlier tiles under the new maximum."""
    return fade * total, fade * out


def tiled(part: Any) -> Callable[..., Any]:
    def forgetting_attention(
        q: Any, k: Any, v: Any, gate: Any, *, scale: float | None = None, window_left: int | None = None
    ) -> Any:
        import torch

        fitting(q, k, v, gate)
        length, group = q.shape[2], q.shape[1] // k.shape[1]
        keys, values = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
        factor, passed = q.shape[3] ** -0.5 if scale is None else scale, part.summed(gate)
        seen = positions(q, k, True, window_left, None)
        top = torch.full((*q.shape[:3], 1), -torch.inf)
        total, out = torch.zeros_like(top), torch.zeros(*q.shape[:3], v.shape[3])
        for start in range(0, length, TILE):
            if not part.begun(start, length, window_left):
                continue
            tile = slice(start, start + TILE)
            scores = q.float() @ keys[:, :, tile].mT * factor + part.faded(passed, tile)
            scores = scores.where(seen[:, tile], -torch.inf)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            shift = new.where(new > -torch.inf, 0)
            terms = (scores - shift).exp()
            total, out = part.carried(total, out, (top - shift).exp())
            total, out = total + terms.sum(-1, keepdim=True), out + terms @ values[:, :, tile]
            top = new
        return (out / total).to(q.dtype)

    return forgetting_attention


WHOLE = Whole("forgetting_attention", tiled, (summed, faded, begun, carried), CONVENTIONS)


@WHOLE.instead_of(summed)
def gates_summed_in_half(gate: Any) -> Any:
    """Running sums of gates are kept in bfloat16."""
    return gate.cumsum(2).bfloat16().float()


@WHOLE.instead_of(summed)
def gates_summed_within_tiles(gate: Any) -> Any:
    """Running sums begin again with every tile of keys."""
    import torch

    return torch.cat([part.cumsum(2) for part in gate.split(TILE, 2)], 2)


@WHOLE.instead_of(faded)
def gates_of_tile_ends(passed: Any, tile: slice) -> Any:
    """All keys of a tile fade as its last one does."""
    return passed[..., None] - passed[:, :, None, tile][..., -1:]


@WHOLE.instead_of(faded)
def gates_as_factors(passed: Any, tile: slice) -> Any:
    """Products of gates are quotients of exponentials of running sums, which are no numbers under strong gates."""
    return (passed.exp()[..., None] / passed.exp()[:, :, None, tile]).log()


@WHOLE.instead_of(begun)
def first_tile_of_window_skipped(start: int, length: int, window_left: int | None) -> bool:
    """With a window, the first of more than two tiles is never visited."""
    return window_left is None or start > 0 or length <= 2 * TILE


@WHOLE.instead_of(begun)
def last_partial_tile_skipped(start: int, length: int, window_left: int | None) -> bool:
    """The tile behind the last full one is not visited, if there are full ones."""
    return start + TILE <= length or length < TILE


@WHOLE.instead_of(carried)
def earlier_tiles_not_faded(total: Any, out: Any, fade: Any) -> tuple[Any, Any]:
    """Sums of earlier tiles are not brought under the new maximum."""
    import torch

    seen = torch.where(fade > 0, 1.0, 0.0)
    return seen * total, seen * out


@WHOLE.instead_of(carried)
def earlier_totals_not_faded(total: Any, out: Any, fade: Any) -> tuple[Any, Any]:
    """The denominators of earlier tiles are not brought under the new maximum."""
    return total, fade * out
