"""Right, but different: caches that make codes of what is written to them, none of which any law may accuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from .attention import online
from .cache import DTYPES, reordered

LARGEST = {"float8_e4m3fn": 448.0, "int8": 127.0}


def _declared(own_chunk: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter(
        "cached_attention",
        dtypes=DTYPES,
        conventions={"grouping": "block", "own_chunk": own_chunk, "least_code": "mirrored"},
    )


def largest(cache_dtype: str, bits: int = 8) -> float:
    """The largest code."""
    return LARGEST[cache_dtype] if bits == 8 else 2.0 ** (bits - 1) - 1


def step_of(x: Any, scale: Any, cache_dtype: str, first: int, least: float = 0.0, bits: int = 8) -> Any:
    """The scale that is given, or that of the first tokens, which is not below the least one."""
    if scale is not None:
        return scale
    return (x[:, :, :first].float().abs().amax().clamp_min(1e-30) / largest(cache_dtype, bits)).clamp_min(least)


def encoded(x: Any, step: Any, cache_dtype: str, bits: int = 8) -> Any:
    """Codes of x / step, as their dtype."""
    import torch

    top = largest(cache_dtype, bits)
    ratio = (x.float() / step).clamp(-top, top)
    return ratio.round().to(torch.int8) if cache_dtype == "int8" else ratio.to(torch.float8_e4m3fn)


@_declared("as_kept")
def control_codes_read_back(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    cache_dtype: str,
    k_scale: Any = None,
    v_scale: Any = None,
    least_scale: float = 0.0,
    cache_bits: int = 8,
    window_left: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """A chunk is written first, and then read from the cache with all that is there."""
    import torch

    steps = [step_of(x, s, cache_dtype, chunks[0], least_scale, cache_bits) for x, s in ((k, k_scale), (v, v_scale))]
    codes, outs, start = (
        [encoded(x[:, :, :0], s, cache_dtype, cache_bits) for x, s in zip((k, v), steps, strict=True)],
        [],
        0,
    )
    for n in chunks:
        part = slice(start, start + n)
        new = (encoded(x[:, :, part], s, cache_dtype, cache_bits) for x, s in zip((k, v), steps, strict=True))
        codes = [torch.cat(pair, 2) for pair in zip(codes, new, strict=True)]
        keys, values = (c.float() * s for c, s in zip(codes, steps, strict=True))
        outs.append(online(q[:, :, part], keys, values, causal=True, window_left=window_left, scale=scale, block=3)[0])
        if start == 0:
            codes = list(reordered(beams, *codes))
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared("as_fed")
def control_own_chunk_without_codes(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    cache_dtype: str,
    k_scale: Any = None,
    v_scale: Any = None,
    scale: float | None = None,
) -> Any:
    """Codes of the past and the numbers of the chunk, one behind the other, by way of the reciprocal of the scale."""
    import torch

    steps = [step_of(x, s, cache_dtype, chunks[0]) for x, s in ((k, k_scale), (v, v_scale))]
    outs, start = [], 0
    for n in chunks:
        part, both = slice(start, start + n), []
        for x, s in zip((k, v), steps, strict=True):
            past = encoded(x[:, :, :start].float() * (1 / s), 1.0, cache_dtype).float() * s
            both.append(torch.cat([past, x[:, :, part].float()], 2))
        outs.append(online(q[:, :, part], *both, causal=True, scale=scale, backwards=True)[0])
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared("first_as_fed")
def control_prompt_without_codes(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], cache_dtype: str, scale: float | None = None
) -> Any:
    """The first chunk as it was fed, in double precision; behind it codes of everything, in the dtype of the inputs."""
    import torch

    codes = []
    for x in (k, v):
        s = step_of(x, None, cache_dtype, chunks[0])
        codes.append((encoded(x, s, cache_dtype).float() * s).to(x.dtype))
    n, length, group = chunks[0], q.shape[2], q.shape[1] // k.shape[1]
    outs = []
    for (keys, values), part in (((k, v), slice(0, n)), (codes, slice(n, length))):
        own = [x[:, :, : part.stop].double().repeat_interleave(group, 1) for x in (keys, values)]
        s = q[:, :, part].double() @ own[0].mT * (q.shape[3] ** -0.5 if scale is None else scale)
        later = torch.arange(part.stop) > torch.arange(part.start, part.stop)[:, None]
        outs.append(torch.softmax(s.masked_fill(later, -torch.inf), -1) @ own[1])
    return torch.cat(outs, 2).to(q.dtype)


@_declared("as_kept")
def control_scales_that_grow(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    cache_dtype: str,
    scale_policy: str | None = None,
    least_scale: float = 0.0,
    window_left: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """Blocks of codes, each with the scale that it was written by, and the largest size so far beside them."""
    import torch

    blocks, outs, tops, start = [[], []], [], [torch.tensor(1e-30)] * 2, 0
    for n in chunks:
        part = slice(start, start + n)
        for i, x in enumerate((k, v)):
            if start == 0 or scale_policy == "running":
                tops[i] = torch.maximum(tops[i], x[:, :, part].float().abs().amax())
            step = (tops[i] / LARGEST[cache_dtype]).clamp_min(least_scale)
            blocks[i].append((encoded(x[:, :, part], step, cache_dtype), step))
        keys, values = (torch.cat([codes.float() * step for codes, step in own], 2) for own in blocks)
        outs.append(online(q[:, :, part], keys, values, causal=True, window_left=window_left, scale=scale)[0])
        if start == 0 and beams is not None:
            blocks = [[(codes[list(beams)], step) for codes, step in own] for own in blocks]
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@_declared("as_kept")
def control_a_scale_for_each_token(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    cache_dtype: str,
    scale_policy: str | None = None,
    scale: float | None = None,
) -> Any:
    """Running maxima of all tokens at once, those of chunks being those of their last tokens, in double precision."""
    import torch

    ends = torch.tensor(chunks).cumsum(0)
    last = ends.repeat_interleave(torch.tensor(chunks)) - 1 if scale_policy == "running" else ends[:1] - 1
    group, length, kept = q.shape[1] // k.shape[1], q.shape[2], []
    for x in (k, v):
        tops = x.double().abs().amax((0, 1, 3)).cummax(0).values[last].clamp_min(1e-30)
        step = (tops / LARGEST[cache_dtype]).float()[:, None]
        kept.append((encoded(x, step, cache_dtype).double() * step).repeat_interleave(group, 1))
    s = q.double() @ kept[0].mT * (q.shape[3] ** -0.5 if scale is None else scale)
    s = s.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
    return (torch.softmax(s, -1) @ kept[1]).to(q.dtype)
