"""Pages in a cascade: those that all items begin with by all queries at once, and what goes wrong where parts meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.paged import CONVENTIONS, shared
from .whole import Whole


def common(table: Any, seen: Any, page_size: int) -> int:
    """How many pages are read once for all items."""
    return shared(table, seen, page_size)


def met(outs: Any, lses: Any) -> Any:
    """The merged outputs of [2, heads, queries, value_dim] by their logsumexps [2, heads, queries]."""
    import torch

    lse = lses.logsumexp(0)
    shares = (lses - torch.where(lse == -torch.inf, 0.0, lse)).exp()[..., None]
    return torch.where(shares > 0, shares * outs, 0.0).sum(0)


def state(scores: Any, values: Any) -> Any:
    """The output and the logsumexp of scores [heads, queries, keys] over values [heads, keys, value_dim]."""
    import torch

    lse = scores.logsumexp(-1)
    return (scores - torch.where(lse == -torch.inf, 0.0, lse)[..., None]).exp() @ values, lse


def cascaded(part: Any) -> Callable[..., Any]:
    def paged_attention(
        q: Any, key_pages: Any, value_pages: Any, table: Any, k_lens: Any, *, scale: float | None = None
    ) -> Any:
        import torch

        page_size, q_len, group = key_pages.shape[1], q.shape[1], q.shape[2] // key_pages.shape[2]
        queries = q.float().transpose(1, 2) * (q.shape[3] ** -0.5 if scale is None else scale)
        out = torch.zeros(*q.shape[:3], value_pages.shape[3])
        count = part.common(table, k_lens - q_len + 1, page_size) if len(q) else 0

        def read(pool: Any, pages: Any, tokens: int) -> Any:
            return pool[pages].flatten(0, 1)[:tokens].float().transpose(0, 1).repeat_interleave(group, 0)

        for item, length in enumerate(k_lens.tolist()):
            own, start = table[item, count : -(-length // page_size)], count * page_size
            found = []
            for pages, first, tokens in ((table[0, :count], 0, start), (own, start, max(length - start, 0))):
                k, v = (read(pool, pages, tokens) for pool in (key_pages, value_pages))
                ahead = first + torch.arange(tokens) > (length - q_len + torch.arange(q_len))[:, None]
                scores = queries[item] @ k.mT
                found.append(part.state(scores.masked_fill(ahead, -torch.inf) if first or not count else scores, v))
            outs, lses = (torch.stack(x) for x in zip(*found, strict=True))
            out[item] = part.met(outs, lses).transpose(0, 1)
        return out.to(q.dtype)

    return paged_attention


CASCADED = Whole("paged_attention", cascaded, (common, met, state), CONVENTIONS)


@CASCADED.instead_of(common)
def common_to_the_first_two(table: Any, seen: Any, page_size: int) -> int:
    """Pages are read once for all where the first two items have them."""
    return shared(table[:2], seen, page_size)


@CASCADED.instead_of(common)
def common_beyond_short_items(table: Any, seen: Any, page_size: int) -> int:
    """Pages are common as far as tables agree, though an item ends within them."""
    return shared(table, seen * 0 + seen.max(), page_size)


@CASCADED.instead_of(met)
def met_half_and_half(outs: Any, lses: Any) -> Any:
    """The outputs of both parts are averaged, if both have keys."""
    return outs.mean(0) if bool((lses > -float("inf")).all()) else met(outs, lses)


@CASCADED.instead_of(state)
def state_of_nothing_is_nan(scores: Any, values: Any) -> Any:
    """A part without keys has NaN as its logsumexp."""
    import torch

    out, lse = state(scores, values)
    return out, torch.where(lse == -torch.inf, torch.nan, lse)
