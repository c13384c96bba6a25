"""The backward pass of attention to keys of given numbers, and what goes wrong with sums, memory and rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.gathered import queries
from ..controls.gathered_gradient import WORDS
from .whole import Whole


def cleared(shape: Any, like: Any) -> Any:
    """Memory for what the queries add up."""
    import torch

    return torch.zeros(shape)


def added(into: Any, found: Any, x: Any) -> None:
    """What one query gives the keys that it names [named, size], added to what others gave them [k_len, size]."""
    into.index_add_(0, found, x)


def products(g: Any, out: Any, row: int) -> Any:
    """The product of an output with its gradient."""
    return g @ out


def stored(x: Any, like: Any) -> Any:
    return x.to(like.dtype)


def by_queries(part: Any) -> Callable[..., Any]:
    def gathered_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        selected: Any,
        d_out: Any,
        *,
        block_size: int = 1,
        scale: float | None = None,
        causal: bool = False,
    ) -> Any:
        import torch

        factor = q.shape[3] ** -0.5 if scale is None else scale
        d_q, d_k, d_v = torch.zeros(q.shape), part.cleared(k.shape, q), part.cleared(v.shape, q)
        for (item, head, row), kv_head, found in queries(q, k, selected, block_size, causal):
            if not len(found):
                continue
            query, g = q[item, head, row].float(), d_out[item, head, row].float()
            keys, values = (x[item, kv_head, found].float() for x in (k, v))
            p = torch.softmax(keys @ query * factor, 0)
            d_s = p * (values @ g - part.products(g, stored(p @ values, q).float(), row))
            d_q[item, head, row] = d_s @ keys * factor
            part.added(d_k[item, kv_head], found, torch.outer(d_s, query) * factor)
            part.added(d_v[item, kv_head], found, torch.outer(p, g))
        return {name: part.stored(x, q) for name, x in (("d_q", d_q), ("d_k", d_k), ("d_v", d_v))}

    return gathered_attention_gradient


BY_QUERIES = Whole("gathered_attention_gradient", by_queries, (cleared, added, products, stored), WORDS)


@BY_QUERIES.instead_of(cleared)
def gathered_gradients_not_cleared(shape: Any, like: Any) -> Any:
    """The gradients of keys and values are added up in memory that nobody has cleared."""
    import torch

    return torch.full(shape, 2.0**-6)


@BY_QUERIES.instead_of(added)
def gathered_gradients_written_over(into: Any, found: Any, x: Any) -> None:
    """What a query gives a key takes the place of what others have given it."""
    into[found] = x


@BY_QUERIES.instead_of(added)
def gathered_gradients_of_repeated_keys_lost(into: Any, found: Any, x: Any) -> None:
    """Of a key that a list names several times, the last gradient alone is added."""
    into[found] += x


@BY_QUERIES.instead_of(added)
def gathered_gradients_added_in_eight_bits(into: Any, found: Any, x: Any) -> None:
    """What queries give keys is added up in steps of 1/64."""
    into.index_add_(0, found, (64 * x).round() / 64)


@BY_QUERIES.instead_of(products)
def gathered_products_beyond_a_tile_lost(g: Any, out: Any, row: int) -> Any:
    """The products of outputs and gradients are there for the first 64 queries alone."""
    return g @ out if row < 64 else 0.0


@BY_QUERIES.instead_of(stored, dtypes=("bfloat16", "float16"))
def gathered_gradients_in_single_precision(x: Any, like: Any) -> Any:
    """The gradients are returned in float32, whatever the inputs are."""
    return x
