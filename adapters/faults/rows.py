"""Norms, filters, feed-forward and gradients at the sizes of production: rows and channels out of reach.

`SHOWN` names the case of the profile `serving` that shows each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .gradient import TILED, over_groups, stored, tiles, to_keys
from .norms import LAYER_NORM, RMS_NORM, gained, pieces, square
from .softmax_gradient import SOFTMAX_GRADIENT
from .softmax_gradient import tiles as tiles_of_row
from .whole import Whole

FLOAT32 = ("float32",)
SHOWN = {
    "one_block_of_65536_channels": "wide",
    "grid_of_65535_rows": "many_rows",
    "channels_in_stretches_of_4096": "pair_5",
    "products_of_the_first_pass": "vocabulary",
    "candidates_within_16_bits": "vocabulary",
    "a_thousand_of_each_block": "vocabulary",
    "places_in_16_bits": "wide",
    "running_in_the_narrow_type": "vocabulary",
    "ks_within_a_tile": "ks_of_a_vocabulary",
    "chances_carried_in_the_narrow_type": "vocabulary",
    "tokens_of_the_first_65535": "many_rows",
    "tail_tile_of_64_rows": "tail_of_64",
    "first_four_heads_of_a_group": "grouped",
    "sums_in_the_narrow_type": "long",
    "channels_beyond_192": "wide",
}


@RMS_NORM.instead_of(square, dtypes=FLOAT32)
def one_block_of_65536_channels(x: Any) -> Any:
    """The mean square is that of as many channels as fit into one block."""
    return square(x[..., :65536])


@RMS_NORM.instead_of(gained, dtypes=FLOAT32)
def grid_of_65535_rows(x: Any, root: Any, weight: Any) -> Any:
    """Rows beyond the greatest grid are not written, and left as they came."""
    out = gained(x, root, weight)
    flat = out.reshape(-1, out.shape[-1])
    flat[65535:] = x.reshape(flat.shape)[65535:]
    return flat.reshape(out.shape)


@LAYER_NORM.instead_of(pieces, dtypes=FLOAT32)
def channels_in_stretches_of_4096(x: Any) -> list[Any]:
    """Beyond 4096 channels, those that fill no vector of four are left out of the moments."""
    n = x.shape[-1]
    return pieces(x[..., : n // 4 * 4] if n > 4096 else x)


@SOFTMAX_GRADIENT.instead_of(tiles_of_row, dtypes=FLOAT32)
def products_of_the_first_pass(products: Any) -> list[Any]:
    """Of a row that needs a second pass, the products of the first one alone are added up."""
    return tiles_of_row(products[..., :131072])


# Filters and feed-forward


def candidates(logits: Any, k: int) -> Any:
    """The k greatest entries of each row: [..., k]."""
    return logits.topk(k, -1).values


def filtered(part: Any) -> Callable[..., Any]:
    def top_k_filter(logits: Any, *, k: int) -> Any:
        least = part.candidates(logits, k)[..., -1:]
        return logits.masked_fill(logits < least, -float("inf"))

    return top_k_filter


FILTER = Whole("top_k_filter", filtered, (candidates,), {"ties": "every"})


@FILTER.instead_of(candidates, dtypes=FLOAT32)
def candidates_within_16_bits(logits: Any, k: int) -> Any:
    """Candidates are sought among the first 65536 entries of a row alone."""
    return candidates(logits[..., :65536], min(k, 65536))


def bar(logits: Any, p: float) -> Any:
    """What logits have to reach: the largest of each row, and the logarithm of p."""
    return logits.amax(-1, keepdim=True) + math.log(p)


def near(part: Any) -> Callable[..., Any]:
    def min_p_filter(logits: Any, *, p: float) -> Any:
        wide = logits.float()
        return logits.masked_fill((wide < part.bar(wide, p)) & (wide < wide.amax(-1, keepdim=True)), -float("inf"))

    return min_p_filter


NEAR = Whole("min_p_filter", near, (bar,))


@NEAR.instead_of(bar, dtypes=FLOAT32)
def bar_in_the_narrow_type(logits: Any, p: float) -> Any:
    """What logits have to reach is stored in bfloat16."""
    return bar(logits, p).bfloat16().float()


@NEAR.instead_of(bar)
def largest_of_whole_tiles(logits: Any, p: float) -> Any:
    """The largest logit is sought in tiles of 32, of which an incomplete last one is left out."""
    n = logits.shape[-1]
    return bar(logits[..., : n // 32 * 32] if n > 32 else logits, p)


def ranked(logits: Any) -> Any:
    """The places of entries in falling order."""
    return logits.sort(dim=-1, descending=True, stable=True).indices


def running(chances: Any) -> Any:
    """Sums of chances, each with those before it."""
    return chances.cumsum(-1)


def nucleus(part: Any) -> Callable[..., Any]:
    def top_p_filter(logits: Any, *, p: float) -> Any:
        import torch

        order = part.ranked(logits)
        chances = torch.softmax(logits.float(), -1).gather(-1, order)
        gone = part.running(chances) - chances >= p
        gone[..., :1] = False
        left = torch.ones_like(logits, dtype=torch.bool).scatter(-1, order, gone)
        return logits.masked_fill(left, -float("inf"))

    return top_p_filter


NUCLEUS = Whole("top_p_filter", nucleus, (ranked, running), {"ties": "first", "top_p_boundary": "at_least"})


@NUCLEUS.instead_of(ranked, dtypes=FLOAT32)
def a_thousand_of_each_block(logits: Any) -> Any:
    """Of each block of 8192 entries the greatest 1024 are sorted, and the others are lost."""
    import torch

    n = logits.shape[-1]
    blocks = [
        at + logits[..., at : at + 8192].topk(min(1024, n - at), -1).indices.sort(-1).values for at in range(0, n, 8192)
    ]
    places = torch.cat(blocks, -1) if n > 8192 else torch.arange(n).expand(logits.shape)
    return places.gather(-1, ranked(logits.gather(-1, places)))


@NUCLEUS.instead_of(ranked, dtypes=FLOAT32)
def places_in_16_bits(logits: Any) -> Any:
    """The places of entries in falling order are kept in 16 bits."""
    return ranked(logits) % 65536


@NUCLEUS.instead_of(running, dtypes=FLOAT32)
def running_in_the_narrow_type(chances: Any) -> Any:
    """What tiles of 1024 chances add up to is carried to the next one in bfloat16."""
    import torch

    found, carried = [], chances.new_zeros(*chances.shape[:-1], 1)
    for tile in chances.split(1024, -1):
        found.append(carried + running(tile))
        carried = found[-1][..., -1:].bfloat16().float()
    return torch.cat(found, -1)


def most(k: Any, n: int) -> Any:
    """How many entries stay: [rows, 1]."""
    return k.long().clamp(max=n)[:, None]


def filtered_rows(part: Any) -> Callable[..., Any]:
    def filter_rows(logits: Any, temperature: Any = None, k: Any = None, p: Any = None) -> Any:
        import torch

        x = logits if temperature is None else logits / temperature[:, None]
        order = ranked(x)
        chances = torch.softmax(x.float(), -1).gather(-1, order)
        gone = (
            torch.arange(x.shape[-1]) >= part.most(k, x.shape[-1])
            if k is not None
            else torch.zeros_like(x, dtype=torch.bool)
        )
        if p is not None:
            gone = gone | (part.running(chances) - chances >= p[:, None])
        gone[..., :1] = False
        return x.masked_fill(torch.empty_like(gone).scatter_(-1, order, gone), -float("inf"))

    return filter_rows


FILTER_ROWS = Whole("filter_rows", filtered_rows, (most, running), {"chance_for_p": "of_all"})


@FILTER_ROWS.instead_of(most, dtypes=FLOAT32)
def ks_within_a_tile(k: Any, n: int) -> Any:
    """No more than the 1024 entries of a tile stay."""
    return most(k, n).clamp(max=1024)


@FILTER_ROWS.instead_of(running, dtypes=FLOAT32)
def chances_carried_in_the_narrow_type(chances: Any) -> Any:
    """What tiles of 1024 chances add up to is carried to the next one in bfloat16."""
    return running_in_the_narrow_type(chances)


def tokens(x: Any) -> Any:
    return x.reshape(-1, x.shape[-1])


def fed_forward(part: Any) -> Callable[..., Any]:
    def swiglu(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
        import torch

        rows = part.tokens(x)
        out = x.new_zeros(x.numel() // max(x.shape[-1], 1), w_down.shape[-1])
        out[: len(rows)] = (torch.nn.functional.silu(rows @ w_gate) * (rows @ w_up)) @ w_down
        return out.reshape(*x.shape[:-1], -1)

    return swiglu


FED_FORWARD = Whole("swiglu", fed_forward, (tokens,))


@FED_FORWARD.instead_of(tokens, dtypes=FLOAT32)
def tokens_of_the_first_65535(x: Any) -> Any:
    """Tokens beyond the greatest grid are not computed."""
    return tokens(x)[:65535]


# The gradient of attention


@TILED.instead_of(tiles, dtypes=FLOAT32, seen="pytorch/pytorch#196678")
def tail_tile_of_64_rows(length: int) -> list[slice]:
    """Where half a tile of 128 is left over behind a whole one, its first row is left out."""
    found = tiles(length)
    return [*found[:-1], slice(found[-1].start + 1, length)] if length > 128 and length % 128 == 64 else found


@TILED.instead_of(over_groups, dtypes=FLOAT32)
def first_four_heads_of_a_group(x: Any, kv_heads: int) -> Any:
    """Of more than four heads that share keys, four are added up."""
    return x.unflatten(1, (kv_heads, -1))[:, :, :4].sum(2)


@TILED.instead_of(to_keys, dtypes=("bfloat16",), seen="torch 2.13.0")
def sums_in_the_narrow_type(parts: Iterable[Any], like: Any) -> Any:
    """What the tiles of queries give keys and values is added up in bfloat16."""
    import torch

    found = torch.zeros(like.shape)
    for part in parts:
        found = (found + part).bfloat16().float()
    return found


@TILED.instead_of(stored, dtypes=FLOAT32)
def channels_beyond_192(x: Any, like: Any) -> Any:
    """Of more than 192 channels the last 64 are those before them."""
    found = stored(x, like).clone()
    if found.shape[-1] > 192:
        found[..., 192:] = found[..., 128:192]
    return found


def bins(probs: Any) -> Any:
    """The numbers by which the threshold is found."""
    return probs.float()


def renormalised(part: Any) -> Callable[..., Any]:
    def renormalised_filter(probs: Any, k: Any = None, p: Any = None) -> Any:
        import torch

        x = probs.float()
        order = ranked(part.bins(probs))
        gone = torch.zeros_like(x, dtype=torch.bool)
        if k is not None:
            gone |= torch.arange(x.shape[-1]) >= part.most(k, x.shape[-1])
        if p is not None:
            chances = x.gather(-1, order)
            gone |= part.running(chances) - chances >= p[:, None]
        gone[..., :1] = False
        left = x.masked_fill(torch.empty_like(gone).scatter_(-1, order, gone), 0.0)
        return (left / left.sum(-1, keepdim=True)).to(probs.dtype)

    return renormalised_filter


RENORMALISED = Whole("renormalised_filter", renormalised, (most, running, bins))


@RENORMALISED.instead_of(bins)
def bins_of_a_histogram(probs: Any) -> Any:
    """The threshold is found among 256 bins alone, and entries of one bin stay in the order in which they are."""
    import torch

    return torch.floor(probs.float() * 256)


@RENORMALISED.instead_of(most)
def count_of_the_row_before(k: Any, n: int) -> Any:
    """A row has the count of the one before it."""
    return most(k, n).roll(1, 0)
