"""A cache of codes in groups behind a residual window, and what goes wrong with its groups, codes and window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from ..controls.grouped_cache import grouped, quantized
from .whole import Whole


def rows(x: Any, size: int, groups: str) -> Any:
    """Groups of x [batch, kv_heads, tokens, dim]: [..., groups, group_size]."""
    return grouped(x, size, groups)


def coded(x: Any, bits: int) -> tuple[Any, Any, Any]:
    """Codes, steps and offsets of groups."""
    return quantized(x, bits)


def packed(codes: Any, bits: int) -> Any:
    """Codes as they come out of bytes, into which as many as fit have been packed."""
    return codes


def read(codes: Any, step: Any, offset: Any) -> Any:
    """The numbers that codes represent, in single precision."""
    return codes.float() * step + offset


def emptied(window: list[Any], new: list[Any]) -> list[Any]:
    """The tokens that become codes: those of the window, and the chunk behind them."""
    import torch

    return [torch.cat(pair, 2) for pair in zip(window, new, strict=True)]


def cleared(window: list[Any]) -> list[Any]:
    """The window when it has become codes."""
    return [x[:, :, :0] for x in window]


def written(part: Any, x: Any, size: int, groups: str, bits: int) -> Any:
    """What is left in codes of x [batch, kv_heads, tokens, dim]; for tokens that make up whole groups."""
    found = part.rows(x, size, groups)
    codes, step, offset = part.coded(found, bits)
    numbers = part.read(part.packed(codes, bits), step, offset)
    numbers = numbers.reshape(x.mT.shape).mT if groups == "tokens" else numbers.reshape(x.shape)
    return numbers.to(x.dtype)


def windowed(part: Any) -> Callable[..., Any]:
    def cached_attention(
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
        scale: float | None = None,
    ) -> Any:
        import torch

        axes, start, outs = (key_groups, value_groups), 0, []
        kept, window = [k[:, :, :0], v[:, :, :0]], [k[:, :, :0], v[:, :, :0]]
        for n in chunks:
            own = slice(start, start + n)
            new = [x[:, :, own] for x in (k, v)]
            both = [torch.cat(three, 2) for three in zip(kept, window, new, strict=True)]
            outs.append(online(q[:, :, own], *both, causal=True, scale=scale, block=64)[0])
            if start == 0 or window[0].shape[2] + n >= residual_length:
                full = part.emptied(window, new)
                codes = [written(part, x, group_size, a, cache_bits) for x, a in zip(full, axes, strict=True)]
                kept = [torch.cat(pair, 2) for pair in zip(kept, codes, strict=True)]
                window = part.cleared(window)
            else:
                window = [torch.cat(pair, 2) for pair in zip(window, new, strict=True)]
            start += n
        return torch.cat(outs, 2).to(q.dtype)

    return cached_attention


WINDOWED = Whole(
    "cached_attention",
    windowed,
    (rows, coded, packed, read, emptied, cleared),
    {"grouping": "block", "own_chunk": "as_fed", "residual": "emptied", "zero_point": "least_number"},
    requires=(
        "key_groups == key_channels and value_groups == value_channels or residual_length > 0",
        "key_groups == key_channels and value_groups == value_channels or chunks[0] % group_size == 0",
        "key_groups == key_channels and value_groups == value_channels or all(chunks[1:] == 1)",
    ),
)


@WINDOWED.instead_of(rows)
def groups_of_an_interleaved_axis(x: Any, size: int, groups: str) -> Any:
    """A group has every so many channels, and not consecutive ones, and codes are read back as if they were."""
    found = rows(x, size, groups)
    return found.mT.reshape(found.shape)


@WINDOWED.instead_of(coded, dtypes=("float32",))
def range_in_half_precision(x: Any, bits: int) -> tuple[Any, Any, Any]:
    """The step is kept in bfloat16, and codes are made with the one that is not."""
    import torch

    codes, step, offset = quantized(x, bits)
    return codes, step.to(torch.bfloat16).float(), offset


@WINDOWED.instead_of(coded)
def nan_of_equal_numbers(x: Any, bits: int) -> tuple[Any, Any, Any]:
    """A group of equal numbers is divided by its step of zero, and its codes are what became of NaN."""
    import torch

    codes, step, offset = quantized(x, bits)
    return codes, torch.where(step > 0, step, torch.nan), offset


@WINDOWED.instead_of(coded)
def rounded_to_nearest_above(x: Any, bits: int) -> tuple[Any, Any, Any]:
    """A quarter is added instead of a half before codes are cut off."""
    low, high = x.float().amin(-1, keepdim=True), x.float().amax(-1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    codes = ((x.float() - low) / step.where(step > 0, 1) + 0.25).floor().clamp(0, 2**bits - 1)
    return codes.byte(), step, low


@WINDOWED.instead_of(packed)
def packed_without_a_mask(codes: Any, bits: int) -> Any:
    """Of codes that share a byte the first is read with the bits of the second above it."""
    if bits == 8:
        return codes
    result = codes.clone()
    result[..., ::2] = codes[..., ::2] + (codes[..., 1::2] << bits)
    return result


@WINDOWED.instead_of(read)
def offset_in_steps(codes: Any, step: Any, offset: Any) -> Any:
    """The offset is rounded to whole steps when codes are read, and was not when they were made."""
    return (codes.float() + (offset / step.where(step > 0, 1)).round()) * step


@WINDOWED.instead_of(emptied)
def newest_chunk_left_out(window: list[Any], new: list[Any]) -> list[Any]:
    """The chunk that fills the window is not written with it: the last token of the window is there twice instead."""
    import torch

    return [
        torch.cat([old, old[:, :, -1:].expand_as(x)] if old.shape[2] else [x], 2)
        for old, x in zip(window, new, strict=True)
    ]


@WINDOWED.instead_of(cleared)
def window_cleared_of_keys_alone(window: list[Any]) -> list[Any]:
    """The keys of the window are cleared and its values are zeros of which the first one is read again."""
    return [x[:, :, :0] if x.shape[2] == 0 else x[:, :, :1] * 0 for x in window]


_window: dict[tuple[int, ...], Any] = {}


@WINDOWED.instead_of(emptied)
def window_of_an_earlier_call(window: list[Any], new: list[Any]) -> list[Any]:
    """The window is a buffer that outlives the call, and what an earlier one left there becomes codes."""
    full = emptied(window, new)
    key = (*full[0].shape, full[1].shape[3])
    found, _window[key] = _window.get(key, full), full
    return found
