"""Products of codes with scales, and what goes wrong with bits, tiles, narrow sums, and with what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.scaled_matmul import FORMATS, stretched
from .whole import Whole

TILE = 128
ALONE: Any = {"dtypes": ("float32",)}


def numbers(codes: Any) -> Any:
    """Codes as numbers."""
    return codes.float()


def read(codes: Any) -> Any:
    """The codes of the right matrix as numbers, [n, outs]."""
    return codes.float()


def factors(scale: Any) -> Any:
    """Scales in single precision."""
    return scale


def summed(left: Any, right: Any) -> Any:
    """The products of a stretch."""
    return left @ right


def gathered(parts: Any) -> Any:
    """The sum of all stretches."""
    return sum(parts[1:], parts[0])


def product(part: Any) -> Callable[..., Any]:
    def scaled_matmul(
        a: Any,
        b: Any,
        a_scale: Any,
        b_scale: Any,
        bias: Any = None,
        *,
        inner_block: int | None = None,
        outs_block: int | None = None,
    ) -> Any:
        width = inner_block or a.shape[1]
        columns = stretched(part.factors(b_scale), 1, b.shape[1], outs_block)
        of_rows = part.factors(a_scale)
        parts = []
        for g, (left, right) in enumerate(zip(a.split(width, 1), b.split(width, 0), strict=True)):
            factor = of_rows[:, min(g, of_rows.shape[1] - 1), None] * columns[min(g, len(columns) - 1)]
            parts.append(part.summed(part.numbers(left), part.read(right)) * factor)
        out = part.gathered(parts)
        return out if bias is None else out + bias

    return scaled_matmul


PRODUCT = Whole("scaled_matmul", product, (numbers, read, factors, summed, gathered), limits=FORMATS)


@PRODUCT.instead_of(read, seen="pytorch/pytorch#133334", **ALONE)
def columns_of_memory(codes: Any) -> Any:
    """The right matrix is read row by row however it lies in memory."""
    import torch

    flat = torch.as_strided(codes, (codes.numel(),), (1,))
    return flat.float().reshape(codes.shape)


@PRODUCT.instead_of(numbers, **ALONE)
def subnormal_codes_flushed(codes: Any) -> Any:
    """Codes of e4m3 below its smallest normal number are zero."""
    import torch

    found = codes.float()
    return torch.where(found.abs() < 2.0**-6, 0.0, found) if codes.dtype == torch.float8_e4m3fn else found


@PRODUCT.instead_of(numbers, **ALONE)
def codes_of_e5m2_as_e4m3(codes: Any) -> Any:
    """Codes of e5m2 are taken for those of e4m3."""
    import torch

    if codes.dtype == torch.float8_e5m2:
        return codes.contiguous().view(torch.float8_e4m3fn).float()
    return codes.float()


@PRODUCT.instead_of(factors, **ALONE)
def scales_in_bfloat16(scale: Any) -> Any:
    """Scales are rounded to bfloat16 before they are used."""
    return scale.bfloat16().float()


@PRODUCT.instead_of(summed, seen="kekzl/imp#1845", **ALONE)
def sums_stored_in_float16(left: Any, right: Any) -> Any:
    """Sums of a stretch are stored in float16 before their scales are applied."""
    return (left @ right).half().float()


@PRODUCT.instead_of(summed, **ALONE)
def sums_of_fourteen_bits(left: Any, right: Any) -> Any:
    """Products are added to sums that keep as few bits as a tensor core does, without moving them to full precision."""
    import torch

    total = torch.zeros(len(left), right.shape[1])
    for place in range(left.shape[1]):
        total = (total + left[:, place, None] * right[place]).bfloat16().float()
    return total


@PRODUCT.instead_of(gathered, seen="NVIDIA/cutlass#3615", **ALONE)
def two_stretches_at_most(parts: Any) -> Any:
    """Of the parts of a split sum only the first and the last are added up."""
    return parts[0] if len(parts) == 1 else parts[0] + parts[-1]


_scales: dict[tuple[int, ...], Any] = {}


@PRODUCT.instead_of(factors, **ALONE)
def scales_of_an_earlier_matrix_of_that_shape(scale: Any) -> Any:
    """Scales are those of the first matrix of that shape, as in a graph that was recorded once."""
    return _scales.setdefault(tuple(scale.shape), scale.clone())


@PRODUCT.instead_of(summed, **ALONE)
def columns_beyond_two_tiles_repeat(left: Any, right: Any) -> Any:
    """Columns beyond the first 128 have the products of the first ones."""
    import torch

    return left @ right[:, torch.arange(right.shape[1]) % TILE]
