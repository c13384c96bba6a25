"""Gradients of neighborhood attention that go through tiles of keys, as kernels compute them, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..controls.neighborhood import fitting, seen_along
from .whole import Whole

TILE = 16


def tiles(pixels: int) -> Iterator[slice]:
    """Tiles of keys."""
    for start in range(0, pixels, TILE):
        yield slice(start, min(start + TILE, pixels))


def looking(seen: Any) -> Any:
    """The queries that see a key of a tile: `seen` is [queries, keys]."""
    return seen.any(1).nonzero()[:, 0]


def pulled(weights: Any, gain: Any, delta: Any) -> Any:
    """The gradients of scores."""
    return weights * (gain - delta[..., None])


def begun(like: Any) -> Any:
    """The gradient of the queries, before tiles of keys add to it."""
    return like.new_zeros(like.shape)


def grouped(x: Any, kv_heads: int) -> Any:
    """The sum over the heads of a group: of [batch, pixels, heads, dim]."""
    return x.unflatten(2, (kv_heads, -1)).sum(3)


def by_keys(part: Any) -> Callable[..., Any]:
    def neighborhood_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        d_out: Any,
        *,
        kernel_height: int,
        kernel_width: int,
        dilation_height: int = 1,
        dilation_width: int = 1,
        stride_height: int = 1,
        stride_width: int = 1,
        causal_height: bool = False,
        causal_width: bool = False,
        scale: float | None = None,
    ) -> dict[str, Any]:
        import torch

        fitting(q, k, v)
        height, width, heads, dim = q.shape[1:]
        down = seen_along(height, kernel_height, dilation_height, stride_height, causal_height)
        across = seen_along(width, kernel_width, dilation_width, stride_width, causal_width)
        seen, factor = torch.kron(down, across), dim**-0.5 if scale is None else scale
        queries, given = (x.float().flatten(1, 2).transpose(1, 2) for x in (q, d_out))
        keys, values = (
            x.float().flatten(1, 2).repeat_interleave(heads // x.shape[3], 2).transpose(1, 2) for x in (k, v)
        )
        scores = (factor * queries @ keys.mT).masked_fill(~seen, -torch.inf)
        lse = scores.logsumexp(-1, keepdim=True)
        delta = (given * (scores.softmax(-1) @ values)).sum(-1)
        d_q, d_k, d_v = part.begun(queries), torch.zeros_like(keys), torch.zeros_like(values)
        for tile in part.tiles(height * width):
            rows = part.looking(seen[:, tile])
            weights = (scores[:, :, rows, tile] - lse[:, :, rows]).exp()
            slopes = part.pulled(weights, given[:, :, rows] @ values[:, :, tile].mT, delta[:, :, rows]) * factor
            d_q[:, :, rows] += slopes @ keys[:, :, tile]
            d_k[:, :, tile] = slopes.mT @ queries[:, :, rows]
            d_v[:, :, tile] = weights.mT @ given[:, :, rows]
        own = {"d_q": d_q.transpose(1, 2).clone()}
        own |= {name: part.grouped(x.transpose(1, 2), k.shape[3]) for name, x in (("d_k", d_k), ("d_v", d_v))}
        shapes = {"d_q": q.shape, "d_k": k.shape, "d_v": v.shape}
        return {name: x.reshape(shapes[name]).to(q.dtype) for name, x in own.items()}

    return neighborhood_attention_gradient


BY_KEYS = Whole("neighborhood_attention_gradient", by_keys, (tiles, looking, pulled, begun, grouped))
_queries: dict[tuple[int, ...], Any] = {}


@BY_KEYS.instead_of(tiles)
def keys_of_whole_tiles(pixels: int) -> Iterator[slice]:
    """Keys that fill no tile have no gradients."""
    yield from (tile for tile in tiles(pixels) if tile.stop - tile.start == TILE or pixels < TILE)


@BY_KEYS.instead_of(looking)
def queries_that_all_keys_have(seen: Any) -> Any:
    """Only queries that see the first key of a tile, or the last one, are gone through."""
    return seen[:, [0, -1]].any(1).nonzero()[:, 0]


@BY_KEYS.instead_of(looking)
def queries_up_to_a_tile(seen: Any) -> Any:
    """Of the queries that see a key of a tile, those that fill no tile themselves are left out."""
    found = looking(seen)
    return found[: len(found) // 8 * 8] if len(found) > 8 else found


@BY_KEYS.instead_of(pulled)
def delta_as_it_comes(weights: Any, gain: Any, delta: Any) -> Any:
    """The product of the output and its gradient is taken off after the weights are applied."""
    return weights * gain - delta[..., None] * (weights > 0)


@BY_KEYS.instead_of(begun)
def queries_of_the_call_before(like: Any) -> Any:
    """The gradient of the queries is added to that of a call of the same shape."""
    return _queries.setdefault(tuple(like.shape), begun(like))


@BY_KEYS.instead_of(grouped)
def last_head_of_the_group(x: Any, kv_heads: int) -> Any:
    """Keys and values have the gradients of the last head of their group."""
    return x.unflatten(2, (kv_heads, -1))[:, :, :, -1]
