"""Quantisation by range, and what goes wrong with the observer of the range and with rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.quantization import LARGEST, blocks_of, distances
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


# Blocks


def sizes(blocks: Any) -> Any:
    """The largest size of each block [down, rows, across, columns]."""
    return blocks.abs().amax((1, 3), keepdim=True)


def drawn(shape: tuple[int, ...], seed: int) -> Any:
    """Uniform numbers from zero to one."""
    import torch

    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def added(steps: Any, noise: Any) -> Any:
    """The step below a number with noise."""
    return (steps + noise).floor()


def cast(ratio: Any, dtype: str) -> Any:
    """The codes of numbers."""
    import torch

    if dtype == "int8":
        return ratio.round().clamp(-127, 127).to(torch.int8)
    return ratio.clamp(-448, 448).to(torch.float8_e4m3fn)


def in_blocks(part: Any) -> Callable[..., Any]:
    def quantize_blocks(
        x: Any,
        *,
        code_dtype: str = "int8",
        block_rows: int | None = 1,
        block_columns: int | None = None,
        power_of_two: bool = False,
        seed: int | None = None,
    ) -> Any:
        import torch

        blocks = blocks_of(x.float(), block_rows, block_columns)
        scale = part.sizes(blocks) / LARGEST[code_dtype]
        scale = torch.where(scale > 0, scale, 1.0)
        scale = torch.exp2(torch.log2(scale).round()) if power_of_two else scale
        ratio = (blocks / scale).reshape(x.shape)
        if seed is not None:
            unit = distances(ratio) if code_dtype == "float8_e4m3fn" else torch.ones(())
            ratio = part.added(ratio / unit, part.drawn(x.shape, seed)) * unit
        return {"codes": part.cast(ratio, code_dtype), "scale": scale[:, 0, :, 0]}

    return quantize_blocks


BLOCKS = Whole("quantize_blocks", in_blocks, (sizes, drawn, added, cast), {"power_rounding": "nearest"})

_sizes: dict[tuple[int, ...], Any] = {}


@BLOCKS.instead_of(sizes)
def sizes_of_an_earlier_matrix(blocks: Any) -> Any:
    """The scales are those of the first matrix of that shape, as in a graph that is replayed."""
    return _sizes.setdefault(tuple(blocks.shape), sizes(blocks))


@BLOCKS.instead_of(cast)
def integers_beyond_the_range_wrap(ratio: Any, dtype: str) -> Any:
    """Integers are cut to eight bits without a look at their range, which a scale that was rounded down leaves."""
    import torch

    return ratio.round().to(torch.int32).to(torch.int8) if dtype == "int8" else cast(ratio, dtype)


@BLOCKS.instead_of(drawn)
def generator_restarted_for_each_row(shape: tuple[int, ...], seed: int) -> Any:
    """The generator is set to the seed at each row."""
    return drawn(shape[1:], seed).expand(shape)


_noise: dict[tuple[int, ...], Any] = {}


@BLOCKS.instead_of(drawn)
def noise_of_an_earlier_call(shape: tuple[int, ...], seed: int) -> Any:
    """The noise is that of the first call of that shape, whatever the seed is."""
    return _noise.setdefault(shape, drawn(shape, seed))


@BLOCKS.instead_of(drawn)
def noise_of_three_bits(shape: tuple[int, ...], seed: int) -> Any:
    """The noise has three bits, so that small distances round up never, and the mean is too low."""
    return (drawn(shape, seed) * 8).floor() / 8


@BLOCKS.instead_of(added)
def noise_added_in_bfloat16(steps: Any, noise: Any) -> Any:
    """Noise is added in bfloat16, in which sums of large codes have no fractions."""
    return (steps.bfloat16() + noise.bfloat16()).floor().float()


@BLOCKS.instead_of(added)
def codes_moved_by_noise(steps: Any, noise: Any) -> Any:
    """What is a code already gets noise of the width of two steps, and moves to a neighbour half of the time."""
    import torch

    exact = steps == steps.round()
    return torch.where(exact, (steps + 2 * noise - 1).round(), added(steps, noise))
