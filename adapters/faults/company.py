"""Attention and softmax row by row, whose bits are those of the row alone, and what makes them depend on others.

`SHOWN` names the contract of the profile `serving` that each of them breaks, for it claims to keep that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..controls.gathered import WORDS, fitting
from ..controls.quantized import FORMATS
from .attention import CONVENTIONS
from .norms import SOFTMAX, summed
from .packed import TILED, keys
from .whole import Whole

FLOAT32 = ("float32",)
SHOWN = {
    "keys_split_in_large_batches": "contract.batch_invariant",
    "last_item_in_another_order": "contract.batch_invariant",
    "keys_split_for_few_queries": "contract.chunk_invariant",
    "tile_that_begins_with_the_call": "contract.chunk_invariant",
    "lanes_summed_in_turn_for_many_rows": "contract.batch_invariant",
    "stretches_of_the_longest_item": "contract.batch_invariant",
    "list_split_in_small_batches": "contract.batch_invariant",
    "list_split_for_single_queries": "contract.chunk_invariant",
    "steps_behind_96_codes_in_other_tiles": "contract.chunk_invariant",
    "codes_split_in_large_batches": "contract.batch_invariant",
}


def splits(batch: int, queries: int) -> int:
    """Into how many parts keys are split."""
    return 1


def order(item: int, batch: int, row: int, count: int) -> int:
    """By how many places keys are rotated before they are summed up."""
    return 0


def by_rows(part: Any) -> Callable[..., Any]:
    def attention(q: Any, k: Any, v: Any, *, scale: float | None = None) -> Any:
        import torch

        (batch, heads, queries, width), group = q.shape, q.shape[1] // k.shape[1]
        out, count = q.new_empty(batch, heads, queries, v.shape[3]), part.splits(batch, queries)
        for item in range(batch):
            for head in range(heads):
                keys, values = k[item, head // group].clone(), v[item, head // group].clone()
                for row in range(queries):
                    turn = part.order(item, batch, row, queries)
                    scores = (keys * q[item, head, row].clone()).sum(-1) * (width**-0.5 if scale is None else scale)
                    weights = (scores - scores.max()).exp()
                    terms = (weights[:, None] * values).roll(turn, 0)
                    sums = [each.sum(0) for each in torch.tensor_split(terms, count)]
                    out[item, head, row] = sum(sums[1:], sums[0]) / weights.sum()
        return out

    return attention


def by_lists(part: Any) -> Callable[..., Any]:
    def gathered_attention(q: Any, k: Any, v: Any, selected: Any, *, scale: float | None = None) -> Any:
        fitting(q, k, v, selected)
        (batch, heads, queries, width), group = q.shape, q.shape[1] // k.shape[1]
        out, count, own = q.new_zeros(batch, heads, queries, v.shape[3]), part.splits(batch, queries), selected.shape[1]
        for item, head, row in itertools.product(range(batch), range(heads), range(queries)):
            at = selected[item, head // group if own > 1 else 0, row]
            at = at[(at >= 0) & (at < k.shape[2])]
            if not len(at):
                continue
            keys, values = k[item, head // group, at], v[item, head // group, at]
            scores = (keys * q[item, head, row].clone()).sum(-1) * (width**-0.5 if scale is None else scale)
            weights = (scores - scores.max()).exp()
            sums = [each.sum(0) for each in (weights[:, None] * values).tensor_split(count)]
            out[item, head, row] = sum(sums[1:], sums[0]) / weights.sum()
        return out

    return gathered_attention


def tiles(batch: int, fed: int, seen: int) -> int:
    """Into how many tiles the codes that a query sees are split, of a call that feeds so many tokens."""
    return 1


def by_steps(part: Any) -> Callable[..., Any]:
    def cached_attention(
        q: Any, k: Any, v: Any, *, chunks: Any, k_scale: Any, v_scale: Any, scale: float | None = None
    ) -> Any:
        (batch, heads, length, width), group = q.shape, q.shape[1] // k.shape[1]
        keys, values = k.float() * k_scale, v.float() * v_scale
        out = q.new_empty(batch, heads, length, v.shape[3])
        fed = [int(n) for n in chunks for _ in range(int(n))]
        for item, head, row in itertools.product(range(batch), range(heads), range(length)):
            seen = keys[item, head // group, : row + 1].clone(), values[item, head // group, : row + 1].clone()
            scores = (seen[0] * q[item, head, row].clone()).sum(-1) * (width**-0.5 if scale is None else scale)
            weights = (scores - scores.max()).exp()
            terms = (weights[:, None] * seen[1]).tensor_split(part.tiles(batch, fed[row], row + 1))
            sums = [each.sum(0) for each in terms]
            out[item, head, row] = sum(sums[1:], sums[0]) / weights.sum()
        return out

    return cached_attention


BY_ROWS = Whole("attention", by_rows, (splits, order), {"grouping": CONVENTIONS["grouping"]})


@BY_ROWS.instead_of(splits, dtypes=FLOAT32, seen="vllm-project/vllm#53257", batch_invariant=True)
def keys_split_in_large_batches(batch: int, queries: int) -> int:
    """In batches of 16 items and more, keys are summed up in four parts."""
    return 4 if batch >= 16 else 1


@BY_ROWS.instead_of(order, dtypes=FLOAT32, batch_invariant=True)
def last_item_in_another_order(item: int, batch: int, row: int, count: int) -> int:
    """The keys of the last item are summed up in another order."""
    return 37 * (batch > 1 and item == batch - 1)


@BY_ROWS.instead_of(splits, dtypes=FLOAT32, chunk_invariant=True)
def keys_split_for_few_queries(batch: int, queries: int) -> int:
    """For fewer than 64 queries, keys are summed up in four parts."""
    return 4 if queries < 64 else 1


@BY_ROWS.instead_of(order, dtypes=FLOAT32, chunk_invariant=True)
def tile_that_begins_with_the_call(item: int, batch: int, row: int, count: int) -> int:
    """The order of the sums depends on the place of a query in a tile of 48 that begins with the call."""
    return row % 48


@SOFTMAX.instead_of(summed, dtypes=FLOAT32, batch_invariant=True)
def lanes_summed_in_turn_for_many_rows(total: Any, top: Any, new: Any, part: Any) -> Any:
    """From 16 rows on, the entries of a block are added one after the other."""
    if part.shape[0] < 16:
        return summed(total, top, new, part)
    sums = total * (top - new).exp().nan_to_num(0.0)
    for at in range(part.shape[-1]):
        sums = sums + (part[..., at : at + 1] - new).exp().nan_to_num(0.0)
    return sums


@TILED.instead_of(keys, dtypes=FLOAT32, batch_invariant=True, seen="vllm-project/vllm#51902")
def stretches_of_the_longest_item(starts: list[int], item: int, split: int) -> list[slice]:
    """How long the stretches of keys are depends on the longest item of the call."""
    longest = max(end - start for start, end in itertools.pairwise(starts))
    return keys(starts, item, split if longest < 512 else split // 4)


BY_LISTS = Whole("gathered_attention", by_lists, (splits,), WORDS, limits={"block_size": (1,)})


@BY_LISTS.instead_of(splits, dtypes=FLOAT32, seen="vllm-project/vllm#53257", batch_invariant=True)
def list_split_in_small_batches(batch: int, queries: int) -> int:
    """The keys of a list are summed up in as many parts as the batch leaves of 32."""
    return max(1, 32 // batch)


@BY_LISTS.instead_of(splits, dtypes=FLOAT32, chunk_invariant=True)
def list_split_for_single_queries(batch: int, queries: int) -> int:
    """For fewer than 8 queries, the keys of a list are summed up in four parts."""
    return 4 if queries < 8 else 1


BY_STEPS = Whole("cached_attention", by_steps, (tiles,), {"grouping": CONVENTIONS["grouping"]}, limits=FORMATS)


@BY_STEPS.instead_of(tiles, dtypes=FLOAT32, seen="vllm-project/vllm#54035", chunk_invariant=True)
def steps_behind_96_codes_in_other_tiles(batch: int, fed: int, seen: int) -> int:
    """Behind 96 tokens of a cache of codes, single tokens are summed up in four tiles."""
    return 4 if fed == 1 and seen > 96 else 1


@BY_STEPS.instead_of(tiles, dtypes=FLOAT32, batch_invariant=True)
def codes_split_in_large_batches(batch: int, fed: int, seen: int) -> int:
    """In batches of 8 items and more, the codes of a cache are summed up in four tiles."""
    return 4 if batch >= 8 and seen >= 4 else 1
