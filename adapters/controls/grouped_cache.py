"""Right, but different: caches of codes in groups behind a residual window, none of which any law may accuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from .attention import online
from .cache import DTYPES, reordered


def _declared(own_chunk: str, residual: str, zero_point: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    words = {"grouping": "block", "own_chunk": own_chunk, "residual": residual, "zero_point": zero_point}
    return adapter("cached_attention", dtypes=DTYPES, conventions=words)


def quantized(rows: Any, bits: int) -> tuple[Any, Any, Any]:
    """Codes, steps and offsets of groups [..., group_size]."""
    low, high = rows.float().amin(-1, keepdim=True), rows.float().amax(-1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    codes = ((rows.float() - low) / step.where(step > 0, 1)).round().clamp(0, 2**bits - 1)
    return codes.byte(), step, low


def grouped(x: Any, size: int, groups: str) -> Any:
    """Groups of the last axis, of whole ones: [..., groups, group_size]."""
    turned = x.mT if groups == "tokens" else x
    return turned.unflatten(-1, (-1, size))


def represented(x: Any, size: int, groups: str, bits: int) -> Any:
    """What codes of x [batch, kv_heads, length, dim] represent, in the dtype of x."""
    codes, step, low = quantized(grouped(x, size, groups), bits)
    numbers = (codes * step + low).flatten(-2)
    return (numbers.mT if groups == "tokens" else numbers).to(x.dtype)


@_declared("as_fed", "emptied", "least_number")
def control_everything_quantized_again(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    group_size: int,
    key_groups: str = "channels",
    value_groups: str = "channels",
    residual_length: int = 0,
    cache_bits: int = 8,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """When the window is emptied, all that is there is quantized once more; a chunk reads itself as it was fed."""
    import torch

    unit = group_size if "tokens" in {key_groups, value_groups} else 1
    held, outs, start, coded = [k[:, :, :0], v[:, :, :0]], [], 0, 0
    for n in chunks:
        part = slice(start, start + n)
        held = [torch.cat([old, x[:, :, part]], 2) for old, x in zip(held, (k, v), strict=True)]
        outs.append(online(q[:, :, part], *held, causal=True, scale=scale, block=3)[0])
        whole = (start + n) // unit * unit
        if start == 0 or start + n - coded >= residual_length:
            coded = whole
            held = [
                torch.cat([represented(x[:, :, :whole], group_size, groups, cache_bits), x[:, :, whole:]], 2)
                for x, groups in zip(held, (key_groups, value_groups), strict=True)
            ]
        if start == 0:
            held = list(reordered(beams, *held))
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared("first_as_fed", "in_blocks", "least_number")
def control_blocks_coded_once(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    group_size: int,
    key_groups: str = "channels",
    value_groups: str = "channels",
    residual_length: int = 0,
    cache_bits: int = 8,
    window_left: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """Codes are made once, of whole blocks, by way of the reciprocal of the step, and are never read to be written."""
    import torch

    unit = group_size if "tokens" in {key_groups, value_groups} else 1
    block, kept = max(residual_length, 1), []
    for x, groups in ((k, key_groups), (v, value_groups)):
        whole = x[:, :, : x.shape[2] // unit * unit]
        rows = grouped(whole, group_size, groups).double()
        low, high = rows.amin(-1, keepdim=True), rows.amax(-1, keepdim=True)
        inverse = (2**cache_bits - 1) / (high - low).clamp_min(1e-30)
        numbers = (((rows - low) * inverse).round() / inverse + low).flatten(-2)
        numbers = (numbers.mT if groups == "tokens" else numbers).to(x.dtype)
        kept.append(torch.cat([numbers, x[:, :, whole.shape[2] :]], 2))
    outs, start = [], 0
    for n in chunks:
        behind = (start if start == 0 else start + n) // block * block // unit * unit
        before = start // block * block // unit * unit
        both = []
        for x, codes in zip((k, v), kept, strict=True):
            past = torch.cat([codes[:, :, :before], x[:, :, before:start]], 2)
            first, rest = past[:, :, : chunks[0]], past[:, :, chunks[0] :]
            own = torch.cat([codes[:, :, start:behind], x[:, :, max(behind, start) : start + n]], 2)
            both.append(torch.cat([*reordered(beams, first), rest, own], 2))
        part = slice(start, start + n)
        outs.append(online(q[:, :, part], *both, causal=True, window_left=window_left, scale=scale)[0])
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared("as_kept", "sliding", "whole_steps")
def control_window_that_slides(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    group_size: int,
    key_groups: str = "channels",
    value_groups: str = "channels",
    residual_length: int = 0,
    cache_bits: int = 8,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """The latest tokens stay as they were fed; zero has a code; a chunk is written before it is read."""
    import torch

    unit, kept = group_size if "tokens" in {key_groups, value_groups} else 1, []
    for x, groups in ((k, key_groups), (v, value_groups)):
        whole = x[:, :, : x.shape[2] // unit * unit]
        rows = grouped(whole, group_size, groups).float()
        low, high = rows.amin(-1, keepdim=True), rows.amax(-1, keepdim=True)
        far = torch.where(low.abs() > high.abs(), low, high)
        step = ((high - low) / (2**cache_bits - 1)).clamp_min(1e-7) * torch.where(low.abs() > high.abs(), 1.0, -1.0)
        count = (far / step).round()
        step, far = torch.where(count == 0, step, far / count), torch.where(count == 0, 0.0, far)
        codes = ((rows - far) / step).round().clamp(0, 2**cache_bits - 1)
        numbers = (codes * step + far).flatten(-2)
        kept.append((numbers.mT if groups == "tokens" else numbers).to(x.dtype))
    outs, end = [], 0
    for n in chunks:
        start, end = end, end + n
        coded = max(end - residual_length, 0) // unit * unit
        both = [torch.cat([c[:, :, :coded], x[:, :, coded:end]], 2) for x, c in zip((k, v), kept, strict=True)]
        before = max(start - residual_length, 0) // unit * unit
        later = [torch.cat([c[:, :, :before], x[:, :, before:start]], 2) for x, c in zip((k, v), kept, strict=True)]
        both = [torch.cat([old, new[:, :, start:]], 2) for old, new in zip(later, both, strict=True)]
        keys, values = both
        outs.append(
            online(q[:, :, start:end], keys, values, causal=True, window_left=window_left, scale=scale, backwards=True)[
                0
            ]
        )
    return torch.cat(outs, 2).to(q.dtype)
