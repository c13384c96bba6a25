"""Quantisation by range, and what goes wrong with the observer of the range and with rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole


def observed(x: Any) -> tuple[float, float]:
    """The least and the greatest number."""
    return float(x.min()), float(x.max())


def rounded(steps: Any) -> Any:
    return steps.round()


def packed(codes: Any, bits: int) -> Any:
    return codes.long()


def by_range(part: Any) -> Callable[..., Any]:
    def quantize(x: Any, *, bits: int = 8) -> Any:
        import torch

        low, high = part.observed(x.double())
        top = 2**bits - 1
        scale = (high - low) / top or 1.0
        zero = torch.tensor(-low / scale, dtype=torch.float64).round()
        codes = part.rounded(x.double() / scale + zero).clamp(0, top)
        return part.packed(codes, bits), torch.tensor(scale, dtype=torch.float64), zero

    return quantize


QUANTIZE = Whole(
    "quantize", by_range, (observed, rounded, packed), {"quantized_range": "data", "zero_point_form": "integer"}
)

_range: list[tuple[float, float]] = []


@QUANTIZE.instead_of(observed)
def range_of_all_calls(x: Any) -> tuple[float, float]:
    """The observer is not reset, and the range is that of all calls so far."""
    _range.append(observed(x))
    return min(low for low, _ in _range), max(high for _, high in _range)


@QUANTIZE.instead_of(observed, seen="kekzl/imp#91")
def range_of_the_memory(x: Any) -> tuple[float, float]:
    """The range is taken over whole tiles, with zeros in the lanes that are not used."""
    low, high = observed(x)
    return (min(low, 0.0), max(high, 0.0)) if x.shape[-1] % 16 else (low, high)


@QUANTIZE.instead_of(rounded)
def halves_away_from_zero(steps: Any) -> Any:
    """A step below a half is rounded up by adding one half in bfloat16."""
    return (steps + 0.5).bfloat16().double().floor()


@QUANTIZE.instead_of(packed)
def codes_in_a_signed_byte(codes: Any, bits: int) -> Any:
    """Codes are kept in a signed byte, and those beyond 127 come back negative."""
    import torch

    return codes.long().to(torch.int8).long()
