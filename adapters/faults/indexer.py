"""The choice of keys in blocks, and what goes wrong with their tails, with precision and with what outlives a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.indexer import FORMATS, scored
from .whole import Whole

BLOCK = 16
"""Keys of which the best are taken first."""


def scores_of(q: Any, k: Any, w: Any, causal: bool) -> tuple[Any, Any]:
    """The index scores in float32, and which keys a query may see."""
    return scored(q.float(), k.float(), w.float(), causal)


def blocks(length: int) -> list[slice]:
    """The keys, block by block."""
    return [slice(start, min(start + BLOCK, length)) for start in range(0, length, BLOCK)]


def kept(best: Any, top_k: int) -> Any:
    """How many of each block stay as candidates."""
    return min(top_k, best.shape[2])


def buffer(chosen: Any) -> Any:
    """Memory for the choice, in which nothing is chosen yet."""
    import torch

    return torch.zeros(chosen, dtype=torch.bool)


def in_blocks(part: Any) -> Callable[..., Any]:
    def lightning_indexer(q: Any, k: Any, w: Any, *, top_k: int = 3, causal: bool = True) -> Any:
        import torch

        scores, seen = part.scores_of(q, k, w, causal)
        scores = scores.masked_fill(~seen, float("-inf"))
        places = []
        for one in part.blocks(k.shape[1]):
            block = scores[..., one]
            places.append(block.topk(part.kept(block, top_k), 2).indices + one.start)
        candidates = torch.cat(places, 2)
        best = scores.gather(2, candidates).topk(min(top_k, candidates.shape[2]), 2).indices
        return part.buffer(tuple(seen.shape)).scatter_(2, candidates.gather(2, best), True) & seen

    return lightning_indexer


INDEXER = Whole("lightning_indexer", in_blocks, (scores_of, blocks, kept, buffer))


@INDEXER.instead_of(scores_of, dtypes=("float32",))
def index_scores_in_eight_bits(q: Any, k: Any, w: Any, causal: bool) -> tuple[Any, Any]:
    """Scores are rounded to float8 before they are compared, so that near ones become equal."""
    import torch

    scores, seen = scores_of(q, k, w, causal)
    return scores.clamp(-400, 400).to(torch.float8_e4m3fn).float(), seen


@INDEXER.instead_of(blocks)
def last_block_of_keys_lost(length: int) -> list[slice]:
    """Keys that do not fill a block of sixteen are left out, where there is a whole one."""
    return [one for one in blocks(length) if one.stop - one.start == BLOCK] or blocks(length)


@INDEXER.instead_of(blocks)
def last_block_of_keys_moved_back(length: int) -> list[slice]:
    """The last block is moved back to be whole, and the keys that it has in common are candidates twice."""
    return [slice(max(0, min(one.start, length - BLOCK)), one.stop) for one in blocks(length)]


@INDEXER.instead_of(kept)
def at_most_eight_of_a_block(best: Any, top_k: int) -> Any:
    """No more than eight keys of a block can be chosen."""
    return min(top_k, best.shape[2], 8)


def rows_of(scores: Any) -> Any:
    """The scores as they come to be chosen from."""
    return scores


def written(codes: Any, scale: Any) -> Any:
    """A block of the cache for each item: the codes of all its keys, and then the scales of all of them."""
    import torch

    flat = (x.contiguous().view(-1) for x in (codes, scale))  # for a last axis of one may have any stride
    parts = (x.view(torch.uint8) for x in flat)
    return torch.cat([x.reshape(len(codes), -1) for x in parts], 1)


def read(block: Any, like: Any) -> tuple[Any, Any]:
    """Codes and scales of a block."""
    import torch

    items, keys, width = like.shape
    codes, scale = block[:, : keys * width].contiguous(), block[:, keys * width :].flatten().clone()  # for its address
    return codes.view(like.dtype).reshape(like.shape), scale.view(torch.float32).reshape(items, keys)


def of_codes(part: Any) -> Callable[..., Any]:
    def lightning_indexer(q: Any, k: Any, w: Any, *, k_scale: Any, top_k: int = 3, causal: bool = True) -> Any:
        codes, scale = part.read(part.written(k, k_scale), k)
        scores, seen = scored(q.float(), codes.float(), w.float(), causal)
        scores = part.rows_of(scores * scale[:, None]).masked_fill(~seen, float("-inf"))
        places = scores.topk(min(top_k, k.shape[1]), 2).indices
        return (seen & False).scatter(2, places, True) & seen

    return lightning_indexer


OF_CODES = Whole("lightning_indexer", of_codes, (rows_of, written, read), limits=FORMATS)


@OF_CODES.instead_of(read, seen="vllm-project/vllm#50576, 1CatAI/1Cat-vLLM#250")
def keys_read_with_their_scales_between(block: Any, like: Any) -> tuple[Any, Any]:
    """A block is read as if each key had its scale behind it, which fills as many bytes."""
    import torch

    items, keys, width = like.shape
    record = block.reshape(items, keys, width + 4)
    scale = record[..., width:].contiguous().view(torch.float32).reshape(items, keys)
    return record[..., :width].contiguous().view(like.dtype), scale


@OF_CODES.instead_of(read, seen="ROCm/ATOM#1466")
def scales_read_without_the_offset_of_the_item(block: Any, like: Any) -> tuple[Any, Any]:
    """Scales are found from the beginning of the cache, whichever item is read."""
    codes, scale = read(block, like)
    return codes, scale[:1].expand_as(scale)


@OF_CODES.instead_of(rows_of, seen="vllm-project/vllm#46856")
def rows_read_as_wide_as_aligned(scores: Any) -> Any:
    """Rows of scores are written one after the other, and read as if each filled a multiple of sixteen places."""
    import torch

    keys = scores.shape[2]
    wide = -(-keys // BLOCK) * BLOCK
    room = torch.full((scores[..., 0].numel() * wide,), float("-inf"))
    room[: scores.numel()] = scores.flatten()
    return room.reshape(*scores.shape[:2], wide)[..., :keys]


_buffers: dict[tuple[int, ...], Any] = {}


@INDEXER.instead_of(buffer)
def choice_of_an_earlier_call(chosen: Any) -> Any:
    """What an earlier call of these sizes has chosen stays chosen."""
    return _buffers.setdefault(chosen, buffer(chosen))
