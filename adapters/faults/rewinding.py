"""A cache from which items take back what they do not keep, and what goes wrong with its counts, pages and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from .whole import Whole

PAGE = 4


def advanced(filled: Any, n: int, own: Any) -> Any:
    """How many slots each item has filled behind a chunk, of which it keeps so many."""
    return filled + own


def places(filled: Any, n: int) -> Any:
    """The slots that a chunk is written to: [batch, n]."""
    import torch

    return filled[:, None] + torch.arange(n, device=filled.device)


def emptied(cache: Any, filled: Any, n: int, own: Any) -> Any:
    """The cache behind a chunk: what was taken back lies where it lay."""
    return cache


def seen(slot: Any, room: int, filled: Any) -> Any:
    """Which slots each query sees: [batch, n, room]."""
    import torch

    return torch.arange(room, device=slot.device) <= slot[..., None]


def rewinding(part: Any) -> Callable[..., Any]:
    def cached_attention(
        q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], kept: Any, scale: float | None = None
    ) -> Any:
        import torch

        batch, _, length, _ = q.shape
        filled, item = torch.zeros(batch, dtype=torch.long, device=q.device), torch.arange(batch)[:, None]
        keys, values = (x.new_zeros((*x.shape[:2], length, x.shape[3])) for x in (k, v))
        outs, start = [], 0
        for c, n in enumerate(chunks):
            own, slot = slice(start, start + n), part.places(filled, n)
            keys[item, :, slot] = k[:, :, own].transpose(1, 2)
            values[item, :, slot] = v[:, :, own].transpose(1, 2)
            mask = part.seen(slot, length, filled)[:, None]
            outs.append(online(q[:, :, own], keys, values, mask=mask, scale=scale, block=64)[0])
            keys, values = (part.emptied(x, filled, n, kept[:, c]) for x in (keys, values))
            filled, start = part.advanced(filled, n, kept[:, c]), start + n
        return torch.cat(outs, 2).to(q.dtype)

    return cached_attention


REWINDING = Whole("cached_attention", rewinding, (advanced, places, emptied, seen), {"grouping": "block"})


@REWINDING.instead_of(places, seen="karpathy/nanochat#485")
def written_where_the_first_item_is(filled: Any, n: int) -> Any:
    """All items write where the first one does, and each reads as far as that."""
    return places(filled[:1].expand_as(filled), n)


@REWINDING.instead_of(seen, seen="ml-explore/mlx-swift-lm#584")
def read_as_far_as_the_longest_item(slot: Any, room: int, filled: Any) -> Any:
    """Every item sees as many slots as the one that is furthest ahead, though they hold what it took back."""
    behind = filled.max() - filled
    return seen(slot + behind[:, None], room, filled)


@REWINDING.instead_of(advanced, seen="ml-explore/mlx-lm#1109")
def single_tokens_not_taken_back(filled: Any, n: int, own: Any) -> Any:
    """A step is in the cache for good, and only longer chunks can be taken back."""
    return filled + (own if n > 1 else n)


@REWINDING.instead_of(advanced)
def rewound_by_whole_pages(filled: Any, n: int, own: Any) -> Any:
    """Where tokens are taken back, so is the page that the last kept one lies in, as far as it is of the chunk."""
    import torch

    end = filled + own
    return torch.where(own < n, torch.maximum(end // PAGE * PAGE, filled), end)


@REWINDING.instead_of(emptied)
def emptied_from_the_front(cache: Any, filled: Any, n: int, own: Any) -> Any:
    """As many slots as were taken back are overwritten with zeros at the front of the cache."""
    import torch

    slot = torch.arange(cache.shape[2], device=cache.device)
    return torch.where((slot < (n - own)[:, None])[:, None, :, None], 0, cache)


@REWINDING.instead_of(seen)
def step_masked_by_the_shortest_item(slot: Any, room: int, filled: Any) -> Any:
    """Chunks of one token see the slots of the item that is furthest behind."""
    return seen(slot if slot.shape[1] > 1 else slot.amin(0, keepdim=True).expand_as(slot), room, filled)
