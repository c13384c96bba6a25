"""A cache that makes codes of what is written to it, and what goes wrong with its scales and its conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from ..controls.writing import LARGEST, encoded
from .whole import Whole


def measured(x: Any, past: Any, cache_dtype: str) -> Any:
    """The scale of a chunk, of which `past` is that of the chunks before it."""
    if past is not None:
        return past
    return x.float().abs().amax().clamp_min(1e-30) / LARGEST[cache_dtype]


def written(x: Any, step: Any, cache_dtype: str) -> Any:
    """Codes of a chunk."""
    return encoded(x, step, cache_dtype)


def read(codes: Any, step: Any) -> Any:
    """The numbers that all codes represent."""
    return codes.float() * step


def writing(part: Any) -> Callable[..., Any]:
    def cached_attention(
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
        import torch

        steps, codes, outs, start = [k_scale, v_scale], [[], []], [], 0
        for n in chunks:
            own = slice(start, start + n)
            for i, (x, given) in enumerate(((k, k_scale), (v, v_scale))):
                steps[i] = given if given is not None else part.measured(x[:, :, own], steps[i], cache_dtype)
                codes[i].append(part.written(x[:, :, own], steps[i], cache_dtype))
            both = [part.read(torch.cat(c, 2), s) for c, s in zip(codes, steps, strict=True)]
            outs.append(online(q[:, :, own], *both, causal=True, scale=scale, block=64)[0])
            start += n
        return torch.cat(outs, 2).to(q.dtype)

    return cached_attention


WRITING = Whole(
    "cached_attention",
    writing,
    (measured, written, read),
    {"grouping": "block", "own_chunk": "as_kept", "least_code": "mirrored"},
)


@WRITING.instead_of(measured, seen="vllm-project/vllm#11906")
def measured_with_each_chunk(x: Any, past: Any, cache_dtype: str) -> Any:
    """Each chunk has a scale made of itself, by which all earlier codes are read from then on."""
    return measured(x, None, cache_dtype)


@WRITING.instead_of(measured)
def grown_without_writing_anew(x: Any, past: Any, cache_dtype: str) -> Any:
    """The scale grows with the largest size so far, and codes that were written by a smaller one stay."""
    import torch

    own = measured(x, None, cache_dtype)
    return own if past is None else torch.maximum(past, own)


@WRITING.instead_of(written)
def not_saturated(x: Any, step: Any, cache_dtype: str) -> Any:
    """What lies beyond the range becomes NaN in float8, and wraps around in integers."""
    import torch

    ratio = x.float() / step
    if cache_dtype == "int8":
        return ratio.round().int().to(torch.int8)
    return torch.where(ratio.abs() > 464, torch.nan, ratio).to(torch.float8_e4m3fn)


@WRITING.instead_of(written)
def rounded_to_half_precision_first(x: Any, step: Any, cache_dtype: str) -> Any:
    """A number is divided by its scale in bfloat16, and rounded a second time to its code."""
    import torch

    return encoded((x.float() / step).to(torch.bfloat16), 1.0, cache_dtype)


@WRITING.instead_of(read, dtypes=("float32",))
def scale_read_in_bfloat16(codes: Any, step: Any) -> Any:
    """Scales are kept in bfloat16."""
    import torch

    return codes.float() * torch.as_tensor(step).to(torch.bfloat16).float()


# Scales that grow with what is written


def reach(top: Any, x: Any) -> Any:
    """The largest size so far, with that of a chunk."""
    import torch

    return torch.maximum(top, x.float().abs().amax())


def read_blocks(blocks: list[tuple[Any, Any]]) -> Any:
    """The numbers of all blocks of codes, each with the scale that it was written by."""
    import torch

    return torch.cat([read(codes, step) for codes, step in blocks], 2)


def growing(part: Any) -> Callable[..., Any]:
    def cached_attention(
        q: Any,
        k: Any,
        v: Any,
        *,
        chunks: tuple[int, ...],
        cache_dtype: str,
        scale_policy: str | None = None,
        scale: float | None = None,
    ) -> Any:
        import torch

        blocks, outs, tops, start = [[], []], [], [torch.tensor(1e-30)] * 2, 0
        for n in chunks:
            own = slice(start, start + n)
            for i, x in enumerate((k, v)):
                if start == 0 or scale_policy == "running":
                    tops[i] = part.reach(tops[i], x[:, :, own])
                step = tops[i] / LARGEST[cache_dtype]
                blocks[i].append((encoded(x[:, :, own], step, cache_dtype), step))
            both = [part.read_blocks(own) for own in blocks]
            outs.append(online(q[:, :, own], *both, causal=True, scale=scale, block=64)[0])
            start += n
        return torch.cat(outs, 2).to(q.dtype)

    return cached_attention


GROWING = Whole(
    "cached_attention",
    growing,
    (reach, read_blocks),
    {"grouping": "block", "own_chunk": "as_kept", "least_code": "mirrored"},
)


@GROWING.instead_of(read_blocks)
def blocks_read_by_the_latest_scale(blocks: list[tuple[Any, Any]]) -> Any:
    """The scale has grown, and codes that were written by a smaller one are read by it as they are."""
    return read_blocks([(codes, blocks[-1][1]) for codes, _ in blocks])


@GROWING.instead_of(read_blocks)
def blocks_read_by_the_first_scale(blocks: list[tuple[Any, Any]]) -> Any:
    """All codes are read by the scale of the first chunk."""
    return read_blocks([(codes, blocks[0][1]) for codes, _ in blocks])


@GROWING.instead_of(reach)
def size_of_the_newest_token(top: Any, x: Any) -> Any:
    """The scale grows with the last token of a chunk alone."""
    return reach(top, x[:, :, -1:] if float(top) > 1e-29 else x)


@GROWING.instead_of(reach)
def growth_by_steps_of_two(top: Any, x: Any) -> Any:
    """A scale that grows is doubled, as often as it takes."""
    found = reach(top, x)
    while 1e-29 < float(top) < float(found):
        top = 2 * top
    return top if float(top) > 1e-29 else found


_tops: dict[tuple[int, ...], Any] = {}


@GROWING.instead_of(reach)
def largest_size_of_earlier_calls(top: Any, x: Any) -> Any:
    """The largest size outlives the call."""
    key = (x.shape[0], x.shape[1], x.shape[3])
    _tops[key] = reach(_tops.get(key, top), x)
    return _tops[key]
