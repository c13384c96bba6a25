"""Products with codes in groups, and what goes wrong with bytes, with narrow sums, and with what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole


def numbers(codes: Any, bits: int) -> Any:
    """Codes as numbers."""
    return codes.float()


def grouped(values: Any, size: int) -> Any:
    """A value of each group for each of its codes."""
    return values.float().repeat_interleave(size, 1)


def summed(x: Any, weights: Any) -> Any:
    """The product."""
    return x.float() @ weights


def with_offsets(steps: Any, offsets: Any) -> Any:
    """Weights."""
    return steps + offsets


def product(part: Any) -> Callable[..., Any]:
    def quantized_matmul(
        x: Any,
        codes: Any,
        scales: Any,
        offsets: Any,
        *,
        bits: int = 4,
        group_size: int = 32,
        transpose_weights: bool = True,
    ) -> Any:
        steps = part.numbers(codes, bits) * part.grouped(scales, group_size)
        weights = part.with_offsets(steps, part.grouped(offsets, group_size))
        return part.summed(x, weights.T if transpose_weights else weights).to(x.dtype)

    return quantized_matmul


PRODUCT = Whole("quantized_matmul", product, (numbers, grouped, summed, with_offsets))


@PRODUCT.instead_of(numbers)
def bytes_with_a_sign(codes: Any, bits: int) -> Any:
    """Codes of eight bits are read as signed bytes."""
    import torch

    return codes.contiguous().view(torch.int8).float() if bits == 8 else codes.float()


@PRODUCT.instead_of(summed)
def sums_in_float8(x: Any, weights: Any) -> Any:
    """Weights are rounded to float8 before the product."""
    import torch

    return x.float() @ weights.to(torch.float8_e5m2).float()


@PRODUCT.instead_of(summed, seen="mflux-community/mflux#489")
def rows_beyond_a_tile_repeat(x: Any, weights: Any) -> Any:
    """Rows beyond the first 32 have the results of the first ones."""
    import torch

    return summed(x[torch.arange(len(x)) % 32], weights)


@PRODUCT.instead_of(with_offsets)
def weights_added_in_float16(steps: Any, offsets: Any) -> Any:
    """Weights are sums in float16, whose last bits are lost beside large offsets."""
    return (64 * offsets.half() + steps.half() - 64 * offsets.half()).float() + offsets


_scales: dict[tuple[int, ...], Any] = {}


@PRODUCT.instead_of(grouped)
def values_of_an_earlier_matrix(values: Any, size: int) -> Any:
    """Scales and offsets are those of the first matrix of that shape, as in a cache by shape."""
    return _scales.setdefault((*values.shape, size), grouped(values, size))
