"""Attention layers with rotary positions, and what goes wrong with their tables, their heads and what they keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.decoder import split
from ..controls.rotary_self_attention import turned
from .whole import Whole

ALONE: Any = {"dtypes": ("float32",)}


def angled(x: Any, base: float) -> Any:
    """Queries or keys [batch, heads, length, channels], rotated by the positions of their tokens."""
    return turned(x, base, None, neighbours=False)


def shared(k: Any, heads: int) -> Any:
    """The heads of keys or values, one for every query head."""
    return k.repeat_interleave(heads // k.shape[1], 1)


def attended(q: Any, k: Any, v: Any) -> Any:
    """Causal attention."""
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def merged(o: Any) -> Any:
    """The heads side by side: [batch, length, heads * channels]."""
    return o.transpose(1, 2).flatten(2)


def layered(part: Any) -> Callable[..., Any]:
    def rotary_self_attention(
        x: Any, wq: Any, wk: Any, wv: Any, wo: Any, *, heads: int, kv_heads: int | None = None, base: float = 10000.0
    ) -> Any:
        groups = heads if kv_heads is None else kv_heads
        if wq.shape[-1] % heads or heads % groups or wk.shape[-1] * heads != wq.shape[-1] * groups:
            raise ValueError("the matrices do not belong to these heads")
        q, k, v = split(x @ wq, heads), split(x @ wk, groups), split(x @ wv, groups)
        q, k = part.angled(q, base), part.angled(k, base)
        return part.merged(part.attended(q, part.shared(k, heads), part.shared(v, heads))) @ wo

    return rotary_self_attention


LAYER = Whole("rotary_self_attention", layered, (angled, shared, attended, merged), {"pairing": "halves"})
TABLES: dict[int, Any] = {}


@LAYER.instead_of(angled, **ALONE)
def table_of_an_earlier_base(x: Any, base: float) -> Any:
    """The first base for heads of a width serves later ones."""
    return angled(x, TABLES.setdefault(x.shape[-1], base))


@LAYER.instead_of(angled, **ALONE)
def positions_in_half_precision(x: Any, base: float) -> Any:
    """Angles are computed in bfloat16, which cannot tell position 257 from 256, and 9 radians from 9.03."""
    import torch

    d = x.shape[-1]
    theta = base ** (-torch.arange(d // 2).bfloat16() * 2 / d)
    angle = (torch.arange(x.shape[2]).bfloat16()[:, None] * theta).float()
    first, second = x.chunk(2, -1)
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


@LAYER.instead_of(angled, **ALONE)
def table_of_64_positions(x: Any, base: float) -> Any:
    """Positions beyond those of the table begin anew."""
    import torch

    return torch.cat([angled(part, base) for part in x.split(64, 2)], 2)


@LAYER.instead_of(shared, **ALONE)
def groups_of_two_at_most(k: Any, heads: int) -> Any:
    """A head of keys serves two query heads, and those left over share the last."""
    import torch

    return (
        k[:, torch.arange(heads).div(2, rounding_mode="floor").clamp(max=k.shape[1] - 1)] if heads > k.shape[1] else k
    )


@LAYER.instead_of(merged, **ALONE)
def merged_as_they_lie(o: Any) -> Any:
    """Heads are put side by side without moving their axis where there are as many as tokens."""
    return o.flatten(2) if o.shape[1] == o.shape[2] and o.shape[1] > 2 else merged(o)
