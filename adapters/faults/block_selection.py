"""The choice of blocks in tiles, and what goes wrong with their tails, with precision and with what outlives a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.block_selection import ranked
from .whole import Whole

TILE = 4
"""Blocks of which the best are taken first."""


def scores_of(scores: Any) -> Any:
    """The importance as it comes to be compared."""
    return scores


def tiles(blocks: int) -> list[slice]:
    """The blocks, tile by tile."""
    return [slice(start, min(start + TILE, blocks)) for start in range(0, blocks, TILE)]


def kept(best: Any, count: int) -> int:
    """How many of each tile stay as candidates."""
    return min(count, best.shape[3])


def in_tiles(part: Any) -> Callable[..., Any]:
    def block_selection(
        importance: Any,
        *,
        count: int,
        block_size: int = 2,
        first_blocks: int = 1,
        local_blocks: int = 2,
        offset: int = 0,
    ) -> Any:
        import torch

        scores, seen = ranked(importance, block_size, first_blocks, local_blocks, offset)
        scores = part.scores_of(scores)
        places = []
        for one in part.tiles(scores.shape[3]):
            tile = scores[..., one]
            places.append(tile.topk(part.kept(tile, count), 3).indices + one.start)
        candidates = torch.cat(places, 3)
        best = scores.gather(3, candidates).topk(min(count, candidates.shape[3]), 3).indices
        return torch.zeros(seen.shape, dtype=torch.bool).scatter_(3, candidates.gather(3, best), True) & seen

    return block_selection


IN_TILES = Whole("block_selection", in_tiles, (scores_of, tiles, kept))


@IN_TILES.instead_of(scores_of, dtypes=("float32",))
def importance_in_eight_bits(scores: Any) -> Any:
    """Importance is rounded to float8 before it is compared, so that near blocks become equal."""
    import torch

    return scores.to(torch.float8_e5m2).float()


@IN_TILES.instead_of(tiles)
def last_tile_of_blocks_lost(blocks: int) -> list[slice]:
    """Blocks that do not fill a tile of four are left out, where there is a whole one."""
    return [one for one in tiles(blocks) if one.stop - one.start == TILE] or tiles(blocks)


@IN_TILES.instead_of(kept)
def at_most_two_of_a_tile(best: Any, count: int) -> int:
    """No more than two blocks of a tile can be chosen."""
    return min(count, best.shape[3], 2)
