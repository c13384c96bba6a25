"""Tokens sorted by their experts and brought back, and what goes wrong with memory, numbers and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.token_permutation import known, matching, placed
from .whole import Whole


def moved(x: Any) -> Any:
    """The tokens, as they are written to their rows."""
    return x


def starting(experts: int, sent: int) -> Any:
    """The numbers of rows, before any is counted."""
    import torch

    return torch.zeros(experts, dtype=torch.int64)


def numbered(places: Any) -> Any:
    """The numbers of rows, as they are kept."""
    return places


def permuted(part: Any) -> Callable[..., Any]:
    def token_permutation(x: Any, chosen: Any, *, experts: int) -> Any:
        known(chosen, len(x), experts)
        places, sent = placed(chosen)
        order = places.argsort()
        pairs = chosen.flatten()[order[:sent]].long()
        sizes = part.starting(experts, sent).index_add_(0, pairs, pairs * 0 + 1)
        sources = order // chosen.shape[1]
        rows = part.moved(x)[sources].to(x.dtype)
        return {
            "rows": rows,
            "block_sizes": sizes.clone(),
            "sources": sources,
            "places": part.numbered(places).view(chosen.shape),
        }

    return token_permutation


PERMUTED = Whole("token_permutation", permuted, (moved, starting, numbered))
_counters: dict[int, Any] = {}


@PERMUTED.instead_of(starting)
def counted_on(experts: int, sent: int) -> Any:
    """The numbers of rows go on from those of the call before."""
    return _counters.setdefault(experts, starting(experts, sent))


@PERMUTED.instead_of(moved, dtypes=("float32",))
def moved_in_bfloat16(x: Any) -> Any:
    """Rows are stored in bfloat16 on their way."""
    return x.bfloat16()


@PERMUTED.instead_of(numbered)
def numbered_in_six_bits(places: Any) -> Any:
    """Numbers of rows are kept in six bits."""
    return places % 64


def added(weighed: Any) -> Any:
    """The sum over the choices of [tokens, k, dim]."""
    return weighed.sum(1)


def room(tokens: int, dim: int) -> Any:
    """What the sums of the tokens are added to."""
    import torch

    return torch.zeros(tokens, dim)


def masked(weighed: Any, sent: Any) -> Any:
    """What was sent nowhere, without a share."""
    import torch

    return torch.where(sent[..., None], weighed, 0.0)


def unpermuted(part: Any) -> Callable[..., Any]:
    def token_unpermutation(rows: Any, chosen: Any, weights: Any = None) -> Any:
        matching(rows, chosen, weights)
        picked = rows.float()[placed(chosen)[0]].unflatten(0, chosen.shape)
        weighed = picked if weights is None else picked * weights.float()[..., None]
        out = part.room(len(chosen), rows.shape[1])
        out += part.added(part.masked(weighed, chosen >= 0))
        return out.to(rows.dtype, copy=True)

    return token_unpermutation


UNPERMUTED = Whole("token_unpermutation", unpermuted, (added, room, masked))


@UNPERMUTED.instead_of(added, dtypes=("float32",))
def added_in_bfloat16(weighed: Any) -> Any:
    """Choices are added up in bfloat16."""
    return weighed.bfloat16().sum(1).float()


@UNPERMUTED.instead_of(masked)
def masked_by_zeros(weighed: Any, sent: Any) -> Any:
    """What was sent nowhere is multiplied by zero, which NaN survives."""
    return weighed * sent[..., None]


_sums: dict[tuple[int, int], Any] = {}


@UNPERMUTED.instead_of(room)
def added_to_the_call_before(tokens: int, dim: int) -> Any:
    """Sums go on from those of the call before with as many tokens and channels."""
    return _sums.setdefault((tokens, dim), room(tokens, dim))
