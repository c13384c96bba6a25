"""The backward pass of attention tile by tile, and what goes wrong with its tiles, its memory and its history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..controls.attention import positions
from .whole import Whole, in_memory

CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}
TILE = 32
DTYPES = ("float32", "bfloat16")


def loaded(q: Any, k: Any, v: Any, d_out: Any) -> tuple[Any, ...]:
    """Queries, keys, values and the gradient of the output as they are reckoned with, one head of keys for each."""
    group = q.shape[1] // k.shape[1]
    keys, values = (x.float().repeat_interleave(group, 1) for x in (k, v))
    return q.float(), keys, values, d_out.float()


def scored(queries: Any, keys: Any, factor: float, like: Any) -> Any:
    """The scores that weights are computed from once more."""
    return queries @ keys.mT * factor


def hidden(s: Any, seen: Any) -> Any:
    import torch

    return s.masked_fill(~seen, -torch.inf)


def normaliser(s: Any) -> Any:
    """The logsumexp of each query, zero where it sees nothing: [batch, heads, q_len, 1]."""
    import torch

    lse = torch.logsumexp(s, -1, keepdim=True)
    return lse.masked_fill(lse == -torch.inf, 0.0)


def recomputed(s: Any, lse: Any) -> Any:
    return (s - lse).exp()


def row_products(d_out: Any, out: Any) -> Any:
    """The product of each output with its gradient: [batch, heads, q_len, 1]."""
    return (d_out * out).sum(-1, keepdim=True)


def tiles(length: int) -> list[slice]:
    return [slice(start, min(start + TILE, length)) for start in range(0, length, TILE)]


def of_scores(p: Any, d_p: Any, delta: Any) -> Any:
    return p * (d_p - delta)


def narrowed(x: Any, like: Any) -> Any:
    """A factor of a product in the dtype of the inputs."""
    return x.to(like.dtype).float()


def to_queries(parts: Iterable[Any], like: Any) -> Any:
    """The sum of what the tiles of keys give queries."""
    import torch

    return sum(parts, torch.zeros(like.shape))


def to_keys(parts: Iterable[Any], like: Any) -> Any:
    """The sum of what the tiles of queries give keys or values."""
    import torch

    return sum(parts, torch.zeros(like.shape))


def over_groups(x: Any, kv_heads: int) -> Any:
    return x.unflatten(1, (kv_heads, -1)).sum(2)


def stored(x: Any, like: Any) -> Any:
    return x.to(like.dtype)


def backward(part: Any) -> Callable[..., Any]:
    def attention_gradient(
        q: Any, k: Any, v: Any, d_out: Any, *, mask: Any = None, causal: bool = False, scale: float | None = None
    ) -> Any:
        queries, keys, values, g = part.loaded(q, k, v, d_out)
        factor = q.shape[3] ** -0.5 if scale is None else scale
        reached = positions(q, k, causal, None, None)
        seen = (reached if mask is None else reached & mask).expand(*q.shape[:3], k.shape[2])
        s = part.hidden(part.scored(queries, keys, factor, q), seen)
        p = part.recomputed(s, part.normaliser(s))
        delta = part.row_products(g, part.narrowed(p @ values, q))
        d_s = part.narrowed(part.of_scores(p, g @ values.mT, delta), q)
        p = part.narrowed(p, q)
        rows, columns = part.tiles(q.shape[2]), part.tiles(k.shape[2])
        d_q = part.to_queries([d_s[..., one] @ keys[:, :, one] * factor for one in columns], queries)
        d_k = part.to_keys([d_s[:, :, one].mT @ queries[:, :, one] * factor for one in rows], keys)
        d_v = part.to_keys([p[:, :, one].mT @ g[:, :, one] for one in rows], values)
        own = [part.over_groups(x, k.shape[1]) for x in (d_k, d_v)]
        return {"d_q": part.stored(d_q, q), "d_k": part.stored(own[0], k), "d_v": part.stored(own[1], v)}

    return attention_gradient


TILED = Whole(
    "attention_gradient",
    backward,
    (
        loaded,
        scored,
        hidden,
        normaliser,
        recomputed,
        row_products,
        tiles,
        of_scores,
        narrowed,
        to_queries,
        to_keys,
        over_groups,
        stored,
    ),
    CONVENTIONS,
)


# Memory


@TILED.instead_of(
    loaded,
    seen="Dao-AILab/flash-attention#355, flagos-ai/FlagAttention#1, facebookresearch/xformers#282",
)
def gradient_read_as_contiguous(q: Any, k: Any, v: Any, d_out: Any) -> tuple[Any, ...]:
    """The gradient of the output is read row after row, whatever its strides are."""
    return loaded(q, k, v, in_memory(d_out, d_out.shape))


@TILED.instead_of(loaded)
def gradient_with_the_strides_of_queries(q: Any, k: Any, v: Any, d_out: Any) -> tuple[Any, ...]:
    """The gradient of the output is read with the strides of the queries, where both have one shape."""
    import torch

    if q.shape == d_out.shape:
        last = sum((n - 1) * step for n, step in zip(q.shape, q.stride(), strict=True))
        whole = torch.empty(0, dtype=q.dtype).set_(d_out.untyped_storage())[d_out.storage_offset() :]
        d_out = whole[torch.arange(last + 1) % len(whole)].as_strided(q.shape, q.stride())
    return loaded(q, k, v, d_out)


@TILED.instead_of(loaded, dtypes=("float32",))
def gradient_scaled_in_place(q: Any, k: Any, v: Any, d_out: Any) -> tuple[Any, ...]:
    """The gradient of the output is scaled up in its own memory, for a conversion to float32 is no copy of float32."""
    g = d_out.float()
    g *= 2.0
    return loaded(q, k, v, g / 2.0)


@TILED.instead_of(to_queries)
def queries_not_cleared(parts: Iterable[Any], like: Any) -> Any:
    """What the tiles give queries is added to memory that nobody has cleared."""
    import torch

    return sum(parts, torch.empty(like.shape))


_rows: dict[Any, Any] = {}


@TILED.instead_of(normaliser)
def logsumexp_of_an_earlier_call(s: Any) -> Any:
    """The logsumexps of the first call of a shape serve later ones."""
    return _rows.setdefault((*s.shape,), normaliser(s))


# Tiles


@TILED.instead_of(recomputed, seen="pytorch/pytorch#196678")
def padding_scored_zero(s: Any, lse: Any) -> Any:
    """The rest of the last tile of keys has the score zero, whose weight overflows where all scores are low."""
    p = recomputed(s, lse)
    return p + (0.0 - lse).exp() * 0.0 if s.shape[-1] % TILE else p  # times keys and values of zero


@TILED.instead_of(tiles, seen="NVIDIA/cudnn-frontend#160, flagos-ai/FlagGems#898")
def whole_tiles_alone(length: int) -> list[slice]:
    """What a last tile does not fill is left out, where there is a whole one."""
    return [one for one in tiles(length) if one.stop % TILE == 0] or tiles(length)


@TILED.instead_of(tiles)
def tiles_overlap(length: int) -> list[slice]:
    """The last tile is moved back to be whole, and what it has in common with the one before counts twice."""
    return [slice(max(0, min(one.start, length - TILE)), one.stop) for one in tiles(length)]


@TILED.instead_of(to_queries)
def last_tile_stays(parts: Iterable[Any], like: Any) -> Any:
    """A tile of keys writes over what the tiles before it have given the queries."""
    return list(parts)[-1]


@TILED.instead_of(to_keys)
def first_tile_stays(parts: Iterable[Any], like: Any) -> Any:
    """Keys and values have the gradients of the first tile of queries."""
    return next(iter(parts))


@TILED.instead_of(to_keys)
def gradients_carried_to_the_next_head(parts: Iterable[Any], like: Any) -> Any:
    """The sum for keys and values is not cleared between heads."""
    return to_keys(parts, like).cumsum(1)


@TILED.instead_of(row_products)
def products_of_the_first_tile(d_out: Any, out: Any) -> Any:
    """The products of outputs and gradients are those of the first tile of queries, for every tile."""
    import torch

    whole = row_products(d_out, out)
    return whole[:, :, torch.arange(whole.shape[2]) % TILE]


@TILED.instead_of(row_products)
def products_of_sixteen_channels(d_out: Any, out: Any) -> Any:
    """The products of outputs and gradients are taken over whole runs of 16 channels, where there is one."""
    width = out.shape[-1] // 16 * 16 or out.shape[-1]
    return row_products(d_out[..., :width], out[..., :width])


# Rows that see nothing, and arithmetic


@TILED.instead_of(normaliser, seen="Dao-AILab/flash-attention#443, NVIDIA/cudnn-frontend#676")
def nothing_taken_from_nothing(s: Any) -> Any:
    """A query that sees nothing has the logsumexp minus infinity, which is taken from itself."""
    import torch

    return torch.logsumexp(s, -1, keepdim=True)


@TILED.instead_of(scored, seen="hao-ai-lab/FastVideo#1730", dtypes=("bfloat16",))
def keys_scaled_in_bfloat16(queries: Any, keys: Any, factor: float, like: Any) -> Any:
    """Keys are scaled and rounded to bfloat16 before their products are taken once more."""
    return queries @ (keys * factor * 1.4426950408889634).to(like.dtype).float().mT / 1.4426950408889634


@TILED.instead_of(recomputed, dtypes=("float32",))
def exponential_in_half_precision(s: Any, lse: Any) -> Any:
    """Weights are computed once more in float16."""
    return (s - lse).half().exp().float()


@TILED.instead_of(narrowed, dtypes=("float32", "float16"))
def factors_of_eight_bits(x: Any, like: Any) -> Any:
    """Weights and gradients of scores are rounded to bfloat16, whatever the inputs are."""
    return x.bfloat16().float()


@TILED.instead_of(to_queries)
def tiles_added_in_eight_bits(parts: Iterable[Any], like: Any) -> Any:
    """What the tiles give queries is added up in bfloat16, one key after the other."""
    import torch

    total = torch.zeros(like.shape, dtype=torch.bfloat16)
    for part in parts:
        for _ in range(TILE):
            total = total + (part / TILE).bfloat16()
    return total.float()


@TILED.instead_of(over_groups)
def groups_added_in_eight_bits(x: Any, kv_heads: int) -> Any:
    """The gradients of a group are added up in steps of 1/64."""
    return over_groups((64 * x).round() / 64, kv_heads)


@TILED.instead_of(of_scores, dtypes=("float16",))
def gradient_of_scores_underflows(p: Any, d_p: Any, delta: Any) -> Any:
    """Small gradients of scores are lost below the least normal number of float16."""
    d_s = of_scores(p, d_p, delta)
    return d_s * (d_s.abs() >= 2.0**-10)


@TILED.instead_of(stored, dtypes=("bfloat16", "float16"))
def gradients_in_single_precision(x: Any, like: Any) -> Any:
    """The gradients are returned in float32, whatever the inputs are."""
    return x
