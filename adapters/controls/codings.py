"""Right, but coarse: attention that makes codes of what it multiplies, and claims no more than that.

Zhang, Wei, Zhang, Zhu and Chen 2024, SageAttention, arXiv:2410.02367: int8 for scores, of keys less their mean.
Shah et al. 2024, FlashAttention-3, arXiv:2407.08608, section 3.3: float8 for all factors.
Chen et al. 2024, INT-FlashAttention, arXiv:2409.16997, algorithm 1: int8 for all factors, and weights in 127 steps.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import CONVENTIONS, positions

TILE = 64


def in_int8(x: Any, tokens: int) -> Any:
    """What is left of `x` in int8, with a scale for so many tokens of a head."""
    import torch

    if x.numel() == 0:
        return x.float()
    parts = x.float().split(tokens, 2)
    steps = [part.abs().amax((2, 3), keepdim=True).clamp_min(1e-30) / 127 for part in parts]
    return torch.cat([(part / step).round() * step for part, step in zip(parts, steps, strict=True)], 2)


def in_float8(x: Any, axes: tuple[int, ...]) -> Any:
    """What is left of `x` in float8_e4m3fn, with a scale for the entries along `axes`."""
    import torch

    if x.numel() == 0:
        return x.float()
    scale = x.float().abs().amax(axes, keepdim=True).clamp_min(1e-30) / 448
    return (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale


def smoothed(k: Any) -> Any:
    """Keys less their mean."""
    return k.float() - k.float().mean(2, keepdim=True)


def attended(q: Any, k: Any, v: Any, scale: float | None, causal: bool, cast: Any) -> tuple[Any, Any]:
    """Attention of what is left of queries, keys and values, tile by tile, with `cast` of weights of at most one."""
    import torch

    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    seen = positions(q, k, causal, None, None)
    s = (q @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)).masked_fill(~seen, -torch.inf)
    rows = s.shape[:-1]
    top, total, out = torch.full((*rows, 1), -torch.inf), torch.zeros(*rows, 1), torch.zeros(*rows, v.shape[3])
    for block, values in zip(s.split(TILE, -1), v.split(TILE, 2), strict=True) if s.numel() else ():
        above = torch.maximum(top, block.amax(-1, keepdim=True))
        finite = above.masked_fill(above == -torch.inf, 0.0)
        kept, weights = torch.exp(top - finite), torch.exp(block - finite)
        total, out, top = total * kept + weights.sum(-1, keepdim=True), out * kept + cast(weights) @ values, above
    return torch.where(total > 0, out / total, 0.0), (total.log() + top).squeeze(-1)


def half(weights: Any) -> Any:
    return weights.half().float()


def eighth(weights: Any) -> Any:
    """Weights in float8, of which the largest becomes 256."""
    import torch

    return (weights * 256).to(torch.float8_e4m3fn).float() / 256


def in_127_steps(weights: Any) -> Any:
    """Weights in int8, of which one becomes 127, as by a scale that is always the same."""
    return (weights * 127).round() / 127


def in_127_steps_of_the_largest(weights: Any) -> Any:
    """Weights in int8, of which the largest of a row of the tile becomes 127."""
    step = weights.amax(-1, keepdim=True).clamp_min(1e-30) / 127
    return (weights / step).round() * step


@adapter("attention", dtypes=("float16",), conventions=CONVENTIONS, grade={"float16": "int8_scores"})
def control_scores_in_int8(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """Queries and keys in int8, with a scale for each token."""
    out, lse = attended(in_int8(q, 1), in_int8(k, 1), v.float(), scale, causal, half)
    return {"out": out.to(q.dtype), "lse": lse}


@adapter("attention", dtypes=("float16",), conventions=CONVENTIONS, grade={"float16": "int8_smoothed"})
def control_smoothed_keys(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """Queries and keys less their mean in int8, with a scale for some tokens each; the logsumexp is set right."""
    out, lse = attended(in_int8(q, 32), in_int8(smoothed(k), TILE), v.float(), scale, causal, half)
    mean = k.float().mean(2, keepdim=True).repeat_interleave(q.shape[1] // k.shape[1], 1)
    shift = (q.float() * mean).sum(-1) * (q.shape[3] ** -0.5 if scale is None else scale)
    return {"out": out.to(q.dtype), "lse": lse + shift}


@adapter("attention", dtypes=("bfloat16", "float16"), conventions=CONVENTIONS, grade="int8_fp8")
def control_smoothed_keys_and_float8(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None
) -> Any:
    """Scores from int8, weights and values in float8."""
    values = in_float8(v, (2,))
    return attended(in_int8(q, 32), in_int8(smoothed(k), TILE), values, scale, causal, eighth)[0].to(q.dtype)


@adapter("attention", dtypes=("bfloat16", "float16"), conventions=CONVENTIONS, grade="fp8")
def control_float8_throughout(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """Queries, keys, values and weights in float8, with a scale for each head of the first three."""
    queries, keys, values = (in_float8(x, (2, 3)) for x in (q, k, v))
    return attended(queries, keys, values, scale, causal, eighth)[0].to(q.dtype)


@adapter("attention", dtypes=("bfloat16", "float16"), conventions=CONVENTIONS, grade="int8")
def control_int8_throughout(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """Queries and keys in int8 by tokens, values by heads, and weights with one scale for all."""
    values = in_int8(v, max(v.shape[2], 1))
    return attended(in_int8(q, 1), in_int8(k, 1), values, scale, causal, in_127_steps)[0].to(q.dtype)


@adapter("attention", dtypes=("bfloat16", "float16"), conventions=CONVENTIONS, grade="int8")
def control_int8_with_running_scales(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None
) -> Any:
    """Everything in int8 by tiles, and the weights of a tile by their largest."""
    values = in_int8(v, TILE)
    left = in_int8(q, 32), in_int8(k, TILE)
    return attended(*left, values, scale, causal, in_127_steps_of_the_largest)[0].to(q.dtype)
