"""Right, but different: neighborhood attention, in ways none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import DTYPES


def fitting(q: Any, k: Any, v: Any) -> None:
    """Refuse queries, keys and values that do not belong to each other."""
    if k.shape[:4] != v.shape[:4] or k.shape[:3] != q.shape[:3] or k.shape[4] != q.shape[4]:
        raise ValueError("queries, keys and values of one map, queries as wide as keys")


def seen_along(length: int, kernel: int, dilation: int, stride: int, causal: bool) -> Any:
    """Which places along an axis see which: booleans [length, length]."""
    import torch

    if kernel * dilation > length or stride > kernel:
        raise ValueError("a window is inside of the map, and a stride inside of a window")
    place = torch.arange(length)
    own, part = place // dilation, place % dilation
    members = (length - 1 - part) // dilation + 1
    start = own // stride * stride
    if causal:
        first = ((start + stride).minimum(members) - kernel).clamp(min=0)
        last = own
    else:
        first = ((start + stride // 2).minimum(members - 1) - kernel // 2).clamp(min=0).minimum(members - kernel)
        last = first + kernel - 1
    inside = (own >= first[:, None]) & (own <= last[:, None])
    return inside & (part == part[:, None])


@adapter("neighborhood_attention", dtypes=DTYPES)
def control_neighborhood_by_masks(
    q: Any,
    k: Any,
    v: Any,
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
) -> Any:
    """All pixels at once under the product of a mask for each axis, in single precision."""
    import torch

    fitting(q, k, v)
    height, width, heads = q.shape[1:4]
    down = seen_along(height, kernel_height, dilation_height, stride_height, causal_height)
    across = seen_along(width, kernel_width, dilation_width, stride_width, causal_width)
    group = heads // k.shape[3]
    keys, values = (x.float().flatten(1, 2).repeat_interleave(group, 2) for x in (k, v))
    factor = q.shape[4] ** -0.5 if scale is None else scale
    scores = torch.einsum("bihd,bjhd->bihj", q.float().flatten(1, 2) * factor, keys)
    scores = scores.masked_fill(~torch.kron(down, across)[None, :, None], -torch.inf)
    out = torch.einsum("bihj,bjhe->bihe", scores.softmax(-1), values)
    return {
        "out": out.unflatten(1, (height, width)).to(q.dtype),
        "lse": scores.logsumexp(-1).unflatten(1, (height, width)),
    }


@adapter("neighborhood_attention", dtypes=DTYPES)
def control_neighborhood_by_windows(
    q: Any,
    k: Any,
    v: Any,
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
) -> Any:
    """Pixel by pixel, with the keys of its window alone, in double precision."""
    import torch

    fitting(q, k, v)
    batch, height, width, heads, _ = q.shape
    down = seen_along(height, kernel_height, dilation_height, stride_height, causal_height)
    across = seen_along(width, kernel_width, dilation_width, stride_width, causal_width)
    dtype = q.dtype
    q, k, v = (x.double().unflatten(3, (k.shape[3], -1)) for x in (q, k, v))
    factor = q.shape[5] ** -0.5 if scale is None else scale
    out = torch.empty(*q.shape[:5], v.shape[5], dtype=torch.float64)
    lse = torch.empty(q.shape[:5], dtype=torch.float64)
    for y in range(height):
        for x in range(width):
            keys, values = (one[:, down[y]][:, :, across[x]].flatten(1, 2)[:, :, :, 0] for one in (k, v))
            scores = factor * torch.einsum("bghd,bjgd->bghj", q[:, y, x], keys)
            lse[:, y, x] = scores.logsumexp(-1)
            weights = (scores - lse[:, y, x, ..., None]).exp()
            out[:, y, x] = torch.einsum("bghj,bjge->bghe", weights, values)
    shape = (batch, height, width, heads)
    return {"out": out.reshape(*shape, -1).to(dtype), "lse": lse.reshape(shape).float()}
