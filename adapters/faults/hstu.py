"""Pointwise attention of HSTU in tiles, as kernels compute it, and what goes wrong with strides, tiles and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.hstu import control_hstu_backward, fitting, visible
from .whole import Whole

TILE = 16


def read(x: Any) -> Any:
    """Keys or values as they are read from memory."""
    return x


def activated(scores: Any) -> Any:
    """The weights of scores, before they are divided."""
    return scores / (1 + (-scores).exp())


def tiles(length: int) -> Any:
    """The tiles of keys of an item."""
    return [slice(start, start + TILE) for start in range(0, length, TILE)]


def summed(like: Any) -> Any:
    """What queries read, before anything is."""
    return like.new_zeros(like.shape)


def tiling(part: Any) -> Callable[..., Any]:
    def hstu_attention(
        q: Any,
        k: Any,
        v: Any,
        lens: Any,
        targets: Any = None,
        *,
        alpha: float,
        max_len: int,
        causal: bool = True,
        window_left: int | None = None,
        context: int = 0,
    ) -> Any:
        import torch

        fitting(q, k, v)
        keys, values, out, start = part.read(k).float(), part.read(v).float(), torch.zeros(v.shape), 0
        for item, length in enumerate(lens.tolist()):
            late = 0 if targets is None else int(targets[item])
            seen, here = visible(length, late, causal, window_left, context), slice(start, start + length)
            total = part.summed(out[here])
            for tile in part.tiles(length):
                scores = torch.einsum("ihd,jhd->ijh", q[here].float() * alpha, keys[here][tile])
                weights = torch.where(seen[:, tile, None], part.activated(scores), 0.0)
                total += torch.einsum("ijh,jhd->ihd", weights, values[here][tile])
            out[here] = total
            start += length
        return (out / max_len).to(v.dtype)

    return hstu_attention


TILING = Whole("hstu_attention", tiling, (read, activated, tiles, summed))
_totals: dict[tuple[int, ...], Any] = {}


@TILING.instead_of(read, seen="meta-recsys/generative-recommenders#583")
def rows_without_gaps(x: Any) -> Any:
    """The rows of keys and values are read as if there were no gaps between them, as in a view of a fused product."""
    width = x.shape[1] * x.shape[2]
    return x.as_strided(x.shape, (width, x.shape[2], 1))


@TILING.instead_of(activated)
def exponentials_that_overflow(scores: Any) -> Any:
    """Scores are multiplied by exp(x) / (1 + exp(x)), which is NaN for large ones."""
    return scores * (scores.exp() / (1 + scores.exp()))


@TILING.instead_of(tiles)
def first_part_of_the_last_tile(length: int) -> Any:
    """Of a last tile that is not full the first four keys are read, where there is a full one before it."""
    whole = tiles(length)
    last = whole[-1:] if length % TILE and length > TILE else []
    return [*whole[: len(whole) - len(last)], *(slice(tile.start, tile.start + 4) for tile in last)]


@TILING.instead_of(summed)
def sums_of_the_item_before(like: Any) -> Any:
    """What is read is added to what the last item of that length has left."""
    return _totals.setdefault(tuple(like.shape), summed(like))


def flowing(d_out: Any) -> Any:
    """The gradients of the results as they are read."""
    return d_out


def collected(gradients: Any, lens: Any) -> Any:
    """The gradients of the keys, of those that were added up."""
    return gradients


def backward(part: Any) -> Callable[..., Any]:
    def hstu_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        lens: Any,
        d_out: Any,
        targets: Any = None,
        *,
        alpha: float,
        max_len: int,
        causal: bool = True,
        window_left: int | None = None,
        context: int = 0,
    ) -> Any:
        options = {"causal": causal, "window_left": window_left, "context": context}
        given = (q, k, v, lens, part.flowing(d_out), targets)
        found = control_hstu_backward(*given, alpha=alpha, max_len=max_len, **options)
        return found | {"d_k": part.collected(found["d_k"], lens)}

    return hstu_attention_gradient


BACKWARD = Whole("hstu_attention_gradient", backward, (flowing, collected))


@BACKWARD.instead_of(flowing)
def cotangents_without_gaps(d_out: Any) -> Any:
    """The gradients of the results are read as if their memory had no gaps."""
    import torch

    return d_out if d_out.is_contiguous() else torch.as_strided(d_out, d_out.shape, d_out.contiguous().stride())


@BACKWARD.instead_of(collected)
def last_keys_of_long_items(gradients: Any, lens: Any) -> Any:
    """Keys behind the last whole tile of 32 of an item have no gradients, where there is a whole one."""
    import torch

    kept = [torch.arange(n) < (n // 32 * 32 if n >= 32 else n) for n in lens.tolist()]
    return gradients * torch.cat(kept)[:, None, None]
