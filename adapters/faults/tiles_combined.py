"""What goes wrong where the tiles of attention are combined: in the running maximum, the sums and the result."""

from __future__ import annotations

from typing import Any

from .tiles import (
    TILED,
    attended,
    divided,
    finite,
    first_maximum,
    greatest,
    kept_maximum,
    rescaling,
    total,
)


@TILED.instead_of(first_maximum, seen="flashinfer-ai/flashinfer#4267, flashinfer-ai/flashinfer#4401")
def maximum_from_half_precision(top: Any) -> Any:
    """The running maximum starts at the lowest number of float16."""
    return top.fill_(-65504.0)


@TILED.instead_of(first_maximum)
def maximum_from_old_memory(top: Any) -> Any:
    """The running maximum is not set before the first tile, and starts with what its memory held."""
    return top


@TILED.instead_of(greatest, seen="tile-ai/tilelang#1148")
def maximum_of_one_tile(top: Any, s: Any, n: int) -> Any:
    """The maximum of a tile replaces the running one."""
    return s.amax(-1, keepdim=True)


@TILED.instead_of(greatest)
def maximum_never_raised(top: Any, s: Any, n: int) -> Any:
    """The maximum of the first tile is never raised."""
    import torch

    return torch.where(top.isinf(), s.amax(-1, keepdim=True), top)


@TILED.instead_of(greatest)
def maximum_of_all_queries(top: Any, s: Any, n: int) -> Any:
    """One running maximum serves a whole tile of queries."""
    import torch

    return torch.maximum(top, s.amax((-1, -2), keepdim=True))


@TILED.instead_of(greatest)
def maximum_of_all_heads(top: Any, s: Any, n: int) -> Any:
    """One running maximum serves all heads."""
    import torch

    return torch.maximum(top, s.amax((-1, 1), keepdim=True))


@TILED.instead_of(greatest)
def maximum_of_half_a_tile(top: Any, s: Any, n: int) -> Any:
    """The maximum is reduced over the first half of a tile alone."""
    import torch

    return torch.maximum(top, s[..., : n // 2].amax(-1, keepdim=True))


@TILED.instead_of(finite, seen="ROCm/aiter#2505")
def nothing_less_nothing(top: Any) -> Any:
    """Before the first visible key, infinity is subtracted from infinity."""
    return top


@TILED.instead_of(rescaling)
def not_rescaled_at_the_end(top: Any, new: Any, last: bool) -> Any:
    """Earlier sums are not rescaled for the last tile."""
    return (top - new).exp() * (not last) + last


@TILED.instead_of(rescaling, seen="paiml/aprender#2706")
def never_rescaled(top: Any, new: Any, last: bool) -> Any:
    """Earlier sums keep their size where the maximum rises."""
    import torch

    return torch.ones_like(top)


@TILED.instead_of(rescaling)
def rescaled_upwards(top: Any, new: Any, last: bool) -> Any:
    """Earlier sums grow by what they are to shrink by."""
    import torch

    return (new - top.masked_fill(top == -torch.inf, 0.0)).exp()


@TILED.instead_of(rescaling)
def small_rises_not_rescaled(top: Any, new: Any, last: bool) -> Any:
    """Where the maximum rises by less than eight, earlier sums are left as they are."""
    return (top - new).exp().masked_fill(new - top < 8, 1.0)


@TILED.instead_of(rescaling)
def rescaled_as_the_first_query(top: Any, new: Any, last: bool) -> Any:
    """Earlier sums of all queries shrink as those of the first do."""
    return (top - new).exp()[:, :, :1]


@TILED.instead_of(total)
def sum_not_rescaled(so_far: Any, old: Any, p: Any, s: Any, top: Any, n: int) -> Any:
    """The sum of the weights is not rescaled."""
    return so_far + p.sum(-1, keepdim=True)


@TILED.instead_of(total)
def sum_of_last_tile(so_far: Any, old: Any, p: Any, s: Any, top: Any, n: int) -> Any:
    """The sum of the weights is that of the last tile."""
    return p.sum(-1, keepdim=True)


@TILED.instead_of(total, seen="zml/zml#563, local-attention 1.11.2")
def sum_padded_to_the_tile(so_far: Any, old: Any, p: Any, s: Any, top: Any, n: int) -> Any:
    """The lanes that fill a short tile count in the sum, with scores of zero."""
    so_far = so_far * old + p.sum(-1, keepdim=True)
    return so_far if p.shape[-1] == n else so_far + (n - p.shape[-1]) * (-top).exp()


@TILED.instead_of(attended)
def result_not_rescaled(so_far: Any, old: Any, p: Any, values: Any) -> Any:
    """The weighted values of earlier tiles are not rescaled."""
    return so_far + p @ values


@TILED.instead_of(attended)
def result_divided_by_tiles(so_far: Any, old: Any, p: Any, values: Any) -> Any:
    """The weights of a tile are divided by their own sum before they meet the values."""
    return so_far * old + (p / p.sum(-1, keepdim=True).clamp_min(1e-30)) @ values


@TILED.instead_of(attended, dtypes=("float32",))
def faint_tiles_skipped(so_far: Any, old: Any, p: Any, values: Any) -> Any:
    """A tile whose weights are all below a thousandth is not added, though its sum is."""
    return so_far * old + p @ values * (p.amax() > 1e-3)


@TILED.instead_of(kept_maximum, seen="Dao-AILab/flash-attention#2082, Dao-AILab/flash-attention#2174")
def zero_kept_for_a_hidden_tile(new: Any, subtracted: Any) -> Any:
    """After a tile in which a query sees nothing, the zero that stood for its maximum is kept."""
    return subtracted


@TILED.instead_of(divided)
def divided_by_nothing(out: Any, total: Any) -> Any:
    """A query without keys divides by a sum of zero."""
    return out / total


@TILED.instead_of(divided)
def divided_by_half_precision(out: Any, total: Any) -> Any:
    """The reciprocal of the sum is stored in float16."""
    return out * (1 / total.clamp_min(1e-30)).half().float() * (total > 0)
