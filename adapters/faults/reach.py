"""What goes wrong where numbers outgrow their types: long strides, large pools, many blocks, late positions.

`SHOWN` names the case of the profile `serving` that shows each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .attention import COMPOSED, averaged, biased, loaded, masked
from .packed import TILED, ends
from .paged import STRETCHED, numbers, read
from .whole import Whole

FLOAT32 = ("float32",)
SHOWN = {
    "batch_offsets_in_32_bits": "strides_over_31_bits",
    "blocks_in_16_bits": "many_blocks",
    "rows_of_a_mask_in_16_bits": "many_rows_of_a_mask",
    "rows_of_a_bias_in_32_bits": "biases_over_31_bits",
    "mask_offsets_in_32_bits": "masks_over_31_bits",
    "tokens_within_31_bits": "strides_over_31_bits",
    "page_numbers_in_16_bits": "page_numbers_over_16_bits",
    "page_offsets_in_32_bits": "pool_over_31_bits",
    "positions_in_single_precision": "beyond_24_bits",
    "positions_in_32_bits": "beyond_31_bits",
}


def wrapped(offsets: Any) -> Any:
    """Whether offsets are negative once they are in 32 bits."""
    import torch

    return (offsets & 0xFFFFFFFF).to(torch.int64) >= 2**31


@COMPOSED.instead_of(loaded, dtypes=FLOAT32)
def batch_offsets_in_32_bits(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """The offset of an item is kept in 32 bits, and one that does not fit is read at the first item."""
    import torch

    def taken(x: Any) -> Any:
        item = torch.arange(len(x))
        return x[torch.where(wrapped(item * x.stride(0)), 0, item)]

    return loaded(q, taken(k), taken(v))


@COMPOSED.instead_of(averaged, dtypes=FLOAT32)
def blocks_in_16_bits(p: Any, values: Any, like: Any) -> Any:
    """There is one block for each head of each item, and those beyond 65535 are not launched."""
    out = p @ values
    out.flatten(0, 1)[65535:] = 0
    return out


@COMPOSED.instead_of(masked, dtypes=FLOAT32, seen="pytorch/pytorch#162588")
def rows_of_a_mask_in_16_bits(mask: Any, s: Any) -> Any:
    """Of a mask, the number of a row is kept in 16 bits."""
    import torch

    if mask is None or mask.dim() < 2:
        return masked(mask, s)
    return masked(mask[..., torch.arange(mask.shape[-2]) % 65536, :], s)


@COMPOSED.instead_of(masked, dtypes=FLOAT32, seen="ml-explore/mlx#2894")
def mask_offsets_in_32_bits(mask: Any, s: Any) -> Any:
    """Of a mask, the offset of a row is kept in 32 bits, and one that does not fit is read at the first row."""
    import torch

    if mask is None or mask.dim() < 2:
        return masked(mask, s)
    row = torch.arange(mask.shape[-2])
    return masked(mask[..., torch.where(wrapped(row * mask.stride(-2)), 0, row), :], s)


@COMPOSED.instead_of(biased, dtypes=FLOAT32, seen="ggml-org/llama.cpp#24912")
def rows_of_a_bias_in_32_bits(s: Any, bias: Any) -> Any:
    """Of a bias, the offset of a row is kept in 32 bits, and one that does not fit is read at the first row."""
    import torch

    if bias is None or bias.dim() < 2:
        return biased(s, bias)
    row = torch.arange(bias.shape[-2])
    return biased(s, bias[..., torch.where(wrapped(row * bias.stride(-2)), 0, row), :])


@TILED.instead_of(ends, dtypes=FLOAT32)
def tokens_within_31_bits(lens: Any, like: Any) -> list[int]:
    """Tokens whose offset takes more than 31 bits are left out."""
    within = -(-(2**31) // like.stride(0))
    return [min(at, within) for at in ends(lens, like)]


@STRETCHED.instead_of(numbers, dtypes=FLOAT32)
def page_numbers_in_16_bits(table: Any, item: int) -> Any:
    """Numbers of pages are kept in 16 bits."""
    return numbers(table, item) % 65536


@STRETCHED.instead_of(read, dtypes=FLOAT32)
def page_offsets_in_32_bits(pool: Any, numbers: Any, count: int) -> Any:
    """The offset of a page is kept in 32 bits, and one that does not fit is read at the first page."""
    return read(pool, numbers.masked_fill(wrapped(numbers * pool.stride(0)), 0), count)


def counted(positions: Any) -> Any:
    """Positions as they are multiplied by frequencies."""
    return positions.double()


def direct(part: Any) -> Callable[..., Any]:
    def rotary(
        x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
    ) -> Any:
        import torch

        width = x.shape[3] if rotary_dim is None else rotary_dim
        frequency = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angle = part.counted(positions)[:, None] * frequency
        out, head = x.double().clone(), x[..., :width].double()
        places = (
            (slice(0, width, 2), slice(1, width, 2)) if interleaved else (slice(width // 2), slice(width // 2, width))
        )
        first, second = (head[..., place] for place in places)
        out[..., places[0]] = first * angle.cos() - second * angle.sin()
        out[..., places[1]] = second * angle.cos() + first * angle.sin()
        return out.to(x.dtype)

    return rotary


DIRECT = Whole("rotary", direct, (counted,), {"pair_place": "kept"})


@DIRECT.instead_of(counted, dtypes=("float64",))
def positions_in_single_precision(positions: Any) -> Any:
    """Positions are in single precision, in which there is no odd one beyond 2 ** 24."""
    return positions.float().double()


@DIRECT.instead_of(counted, dtypes=("float64", "float32"))
def positions_in_32_bits(positions: Any) -> Any:
    """Positions are kept in 32 bits, and one beyond 2 ** 31 is negative."""
    return positions.int().double()
