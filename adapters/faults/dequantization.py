"""Blocks of codes as numbers, and what goes wrong with their bits, with narrow arithmetic, and with what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.dequantization import E2M1, LENGTHS, in_rows
from .whole import Whole


def bytes_as_float(codes: Any, dtype: Any) -> Any:
    """Numbers in float8."""
    return codes.view(dtype).float()


def nibbles_as_float(codes: Any) -> Any:
    """Numbers in e2m1, two to a byte."""
    import torch

    table = torch.tensor(E2M1)
    return torch.stack((table[codes.long() & 15], table[codes.long() >> 4]), -1).flatten(1)


def powers(scales: Any) -> Any:
    """Scales that are powers of two."""
    import torch

    return scales.contiguous().view(torch.float8_e8m0fnu).float()


def fractions(scales: Any) -> Any:
    """Scales in e4m3."""
    import torch

    return scales.contiguous().view(torch.float8_e4m3fn).float()


def combined(steps: Any, tensor_scale: Any) -> Any:
    """The scale of a block times the second one."""
    return steps if tensor_scale is None else steps * tensor_scale


def laid_out(scales: Any, rows: int, blocks: int) -> Any:
    """Scales row by row of those in tiles."""
    return in_rows(scales, rows, blocks)


def in_blocks(part: Any) -> Callable[..., Any]:
    def dequantize_blocks(
        codes: Any, scales: Any, tensor_scale: Any = None, *, block_format: str = "mxfp8_e4m3", swizzled: bool = False
    ) -> Any:
        import torch

        kinds = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2}
        codes = codes.contiguous()
        numbers = (
            part.bytes_as_float(codes, kinds[block_format]) if block_format in kinds else part.nibbles_as_float(codes)
        )
        size = 16 if block_format == "nvfp4" else 32
        if swizzled:
            scales = part.laid_out(scales, len(codes), numbers.shape[1] // size)
        steps = (part.fractions if block_format == "nvfp4" else part.powers)(scales)
        return (numbers.unflatten(1, (-1, size)) * part.combined(steps, tensor_scale)[..., None]).flatten(1)

    return dequantize_blocks


BLOCKS = Whole(
    "dequantize_blocks",
    in_blocks,
    (bytes_as_float, nibbles_as_float, powers, fractions, combined, laid_out),
    {"last_scale": "nans"},
)


@BLOCKS.instead_of(bytes_as_float, seen="tile-ai/tilelang#2702")
def last_code_is_480(codes: Any, dtype: Any) -> Any:
    """The last codes of e4m3 are 480, and not NaN."""
    import torch

    numbers = bytes_as_float(codes, dtype)
    return numbers.nan_to_num(480.0) * torch.where(codes == 255, -1.0, 1.0) if dtype == torch.float8_e4m3fn else numbers


@BLOCKS.instead_of(powers, seen="NVIDIA/TransformerEngine#3262")
def powers_by_shifted_bits(scales: Any) -> Any:
    """The code of a scale is moved to the exponent of single precision, so that 0 is zero and 255 infinity."""
    import torch

    return (scales.int() << 23).view(torch.float32)


@BLOCKS.instead_of(powers)
def powers_kept_in_float16(scales: Any) -> Any:
    """Scales are kept in float16, whose range is small."""
    return powers(scales).half().float()


@BLOCKS.instead_of(powers)
def powers_by_signed_bytes(scales: Any) -> Any:
    """The code of a scale is read as a signed byte."""
    import torch

    return torch.exp2(scales.contiguous().view(torch.int8).float() - 127)


@BLOCKS.instead_of(fractions)
def nan_scale_is_480(scales: Any) -> Any:
    """The last scale in e4m3 is 480, and not NaN."""
    return fractions(scales).nan_to_num(480.0)


@BLOCKS.instead_of(combined)
def scales_combined_in_float8(steps: Any, tensor_scale: Any) -> Any:
    """The product of both scales is rounded to e4m3 again."""
    import torch

    return steps if tensor_scale is None else (steps * tensor_scale).to(torch.float8_e4m3fn).float()


_second: list[Any] = []


@BLOCKS.instead_of(combined)
def second_scale_of_an_earlier_call(steps: Any, tensor_scale: Any) -> Any:
    """The second scale is that of the first call with one, as in a graph that is replayed."""
    if tensor_scale is None:
        return steps
    _second.append(tensor_scale)
    return steps * _second[0]


@BLOCKS.instead_of(nibbles_as_float)
def nibbles_shifted_with_their_sign(codes: Any) -> Any:
    """The high bits of a byte are moved down as those of a signed one, and negative ones index from the end."""
    import torch

    table, signed = torch.tensor(E2M1[:8]), codes.contiguous().view(torch.int8).long()
    low, high = table[codes.long() & 7] * torch.where(codes & 8 > 0, -1.0, 1.0), table[(signed >> 4) % 8]
    return torch.stack((low, high), -1).flatten(1)


@BLOCKS.instead_of(laid_out, seen="vllm-project/vllm#23140")
def tiles_of_the_filled_rows(scales: Any, rows: int, blocks: int) -> Any:
    """Tiles are read as if there were as many columns as scales, and not filled up to four."""
    import torch

    flat, across = scales.reshape(-1), -(-blocks // 4)
    r, c = torch.arange(rows)[:, None], torch.arange(blocks)[None]
    at = (r // 128 * across * 128 + r % 32 * 4 + r % 128 // 32) * blocks + c
    return flat[at.clamp(max=len(flat) - 1)]


# Blocks of ggml


def half(pairs: Any) -> Any:
    """Numbers in float16, of two bytes each."""
    import torch

    return pairs.contiguous().view(torch.float16).float()


def nibbles(kept: Any) -> Any:
    """Codes of four bits, the low ones of all bytes first."""
    import torch

    return torch.cat((kept & 15, kept >> 4), -1).float()


def signed(kept: Any) -> Any:
    """Codes of eight bits."""
    import torch

    return kept.contiguous().view(torch.int8).float()


def centred(codes: Any) -> Any:
    """Codes of q4_0, of which 8 is zero."""
    return codes - 8


def as_numbers(scale: Any, codes: Any, least: Any) -> Any:
    """What codes mean."""
    return scale * codes + least


def of_ggml(part: Any) -> Callable[..., Any]:
    def dequantize_gguf(data: Any, *, block_format: str = "q4_0") -> Any:
        blocks = data.reshape(len(data), -1, LENGTHS[block_format])
        scale, least = part.half(blocks[..., :2]), 0.0
        if block_format == "q8_0":
            return part.as_numbers(scale, part.signed(blocks[..., 2:]), least).flatten(1)
        codes = part.nibbles(blocks[..., -16:])
        if block_format == "q4_1":
            least = part.half(blocks[..., 2:4])
        else:
            codes = part.centred(codes)
        return part.as_numbers(scale, codes, least).flatten(1)

    return dequantize_gguf


GGUF = Whole("dequantize_gguf", of_ggml, (half, nibbles, signed, centred, as_numbers))


@GGUF.instead_of(half, seen="kekzl/imp#808")
def half_by_shifted_exponent(pairs: Any) -> Any:
    """The bits of float16 are moved to those of single precision, with another bias, also below the normal numbers."""
    import torch

    bits = half(pairs).half().view(torch.int16).int()
    moved = ((bits & 0x7FFF) << 13) + (112 << 23)
    return torch.where(bits < 0, -1.0, 1.0) * moved.view(torch.float32)


@GGUF.instead_of(centred)
def middle_subtracted_in_bytes(codes: Any) -> Any:
    """The middle is subtracted in bytes without a sign, which wrap around."""
    import torch

    return (codes.to(torch.uint8) - 8).float()


@GGUF.instead_of(nibbles)
def nibbles_of_signed_bytes(kept: Any) -> Any:
    """Bytes are taken for signed ones, so that the sign fills the high bits."""
    import torch

    both = kept.contiguous().view(torch.int8)
    return torch.cat((both & 15, both >> 4), -1).float()


@GGUF.instead_of(as_numbers)
def numbers_in_half_precision(scale: Any, codes: Any, least: Any) -> Any:
    """Products are rounded to float16 before they are returned in another dtype."""
    return as_numbers(scale.half(), codes.half(), least if isinstance(least, float) else least.half()).float()


_heads: dict[tuple[int, ...], Any] = {}


@GGUF.instead_of(half)
def scales_of_an_earlier_row(pairs: Any) -> Any:
    """The scales are those of the first data of that shape, as in a buffer that is not written again."""
    return _heads.setdefault(tuple(pairs.shape), half(pairs))
