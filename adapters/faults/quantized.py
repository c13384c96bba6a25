"""Codes with scales, and what goes wrong with their bits, with narrow arithmetic, and with what outlives a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import CONVENTIONS, online
from ..controls.quantized import FORMATS
from ..controls.quantized import PAGED as PAGED_CONVENTIONS
from .whole import Whole


def numbers(codes: Any) -> Any:
    """What codes represent without their scale."""
    return codes.float()


def factors(scale: Any, codes: Any, block: int | None) -> Any:
    """The scales of tokens, those of a block written out for each."""
    if block is None or scale.shape[-2] == 1:
        return scale
    return scale.repeat_interleave(block, -2)[..., : codes.shape[-2], :]


def scaled(numbers: Any, factors: Any, codes: Any) -> Any:
    """Numbers and their scales in one."""
    return numbers * factors


def narrowed(weights: Any) -> Any:
    """The values as they are multiplied with the weights."""
    return weights


def dequantized(part: Any) -> Callable[..., Any]:
    def attention(
        q: Any,
        k: Any,
        v: Any,
        *,
        k_scale: Any,
        v_scale: Any,
        mask: Any = None,
        scale_block: int | None = None,
        causal: bool = False,
        scale: float | None = None,
    ) -> Any:
        keys, values = (
            part.scaled(part.numbers(x), part.factors(s, x, scale_block), x) for x, s in ((k, k_scale), (v, v_scale))
        )
        return online(q, keys, part.narrowed(values), mask=mask, causal=causal, scale=scale)[0].to(q.dtype)

    return attention


DEQUANTIZED = Whole(
    "attention",
    dequantized,
    (numbers, factors, scaled, narrowed),
    CONVENTIONS,
    limits=FORMATS,
)


@DEQUANTIZED.instead_of(numbers)
def codes_read_as_the_other_float(codes: Any) -> Any:
    """Codes in float8_e4m3fn are read as float8_e5m2."""
    import torch

    other = codes.view(torch.float8_e5m2) if codes.dtype == torch.float8_e4m3fn else codes
    return other.float().nan_to_num(0.0, 448.0, -448.0)


@DEQUANTIZED.instead_of(numbers)
def codes_read_with_another_bias(codes: Any) -> Any:
    """Codes in float8_e4m3fn are read as float8_e4m3fnuz, and minus zero as NaN."""
    import torch

    return numbers(codes.view(torch.float8_e4m3fnuz) if codes.dtype == torch.float8_e4m3fn else codes)


@DEQUANTIZED.instead_of(numbers)
def integers_read_as_unsigned(codes: Any) -> Any:
    """Bytes of int8 are read as uint8."""
    import torch

    return numbers(codes.view(torch.uint8) if codes.dtype == torch.int8 else codes)


@DEQUANTIZED.instead_of(numbers)
def greatest_integer_lost(codes: Any) -> Any:
    """The code of -128 is read as +128, whose sign is taken from its size in eight bits."""
    import torch

    return numbers(codes).where(numbers(codes) != -128, 128.0) if codes.dtype == torch.int8 else numbers(codes)


@DEQUANTIZED.instead_of(numbers)
def subnormal_codes_without_their_leading_zero(codes: Any) -> Any:
    """Subnormal codes are read with a leading one, as normal ones have it."""
    import torch

    found = numbers(codes)
    if codes.dtype != torch.float8_e4m3fn:
        return found
    return torch.where((found.abs() < 2**-6) & (found != 0), found + found.sign() * 2**-7, found)


@DEQUANTIZED.instead_of(factors, dtypes=("float32",))
def scale_in_eleven_bits(scale: Any, codes: Any, block: int | None) -> Any:
    """Scales are kept in float16, in which small ones lose digits."""
    return factors(scale.half().float(), codes, block)


@DEQUANTIZED.instead_of(factors)
def scale_as_power_of_two(scale: Any, codes: Any, block: int | None) -> Any:
    """Scales are kept in float8_e8m0, which has powers of two alone."""
    import torch

    return factors(torch.exp2(torch.log2(scale.clamp_min(1e-30)).round()) * (scale > 0), codes, block)


_scales: dict[tuple[int, ...], Any] = {}


@DEQUANTIZED.instead_of(factors, seen="thu-ml/SageAttention#392")
def scales_of_an_earlier_call(scale: Any, codes: Any, block: int | None) -> Any:
    """The scales are those of the first call with scales of that shape, as in a graph that is replayed."""
    return factors(_scales.setdefault(tuple(scale.shape), scale.clone()), codes, block)


@DEQUANTIZED.instead_of(factors, seen="vllm-project/vllm#49716")
def scales_of_blocks_by_bytes(scale: Any, codes: Any, block: int | None) -> Any:
    """The scale of a token is looked for as many entries from the first one as its head and place say, unpadded."""
    import torch

    if scale.shape[-2] != codes.shape[-2] or scale.shape[-2] == 1 or block is not None:
        return factors(scale, codes, block)
    padded = -(-scale.shape[-2] // 4) * 4
    flat = torch.nn.functional.pad(scale, (0, 0, 0, padded - scale.shape[-2]), value=1.0).flatten()
    return flat[: scale.numel()].reshape(scale.shape)


@DEQUANTIZED.instead_of(factors)
def last_block_without_scale(scale: Any, codes: Any, block: int | None) -> Any:
    """Tokens of a last block that is not full have no scale."""
    found = factors(scale, codes, block)
    if block is None or not codes.shape[-2] % block or found.shape[-2] == 1:
        return found
    found = found.clone()
    found[..., codes.shape[-2] // block * block :, :] = 1.0
    return found


@DEQUANTIZED.instead_of(scaled)
def product_in_eight_bits(numbers: Any, factors: Any, codes: Any) -> Any:
    """A code times its scale is rounded to float8_e4m3fn again."""
    import torch

    return (numbers * factors).clamp(-448, 448).to(torch.float8_e4m3fn).float()


@DEQUANTIZED.instead_of(scaled)
def scale_found_anew(numbers: Any, factors: Any, codes: Any) -> Any:
    """The scale that is given is left out for the one that fills the range of the format."""
    import torch

    return numbers * numbers.abs().amax() / (127.0 if codes.dtype == torch.int8 else 448.0)


@DEQUANTIZED.instead_of(narrowed)
def values_in_steps_of_their_largest(weights: Any) -> Any:
    """The values are quantised once more, in 127 steps of the largest of them all."""
    step = weights.abs().amax().clamp_min(1e-30) / 127
    return (weights / step).round() * step


# Pages


def page_scale(scale: Any, page: Any) -> Any:
    """The scales of pages, one for each place."""
    return scale[page] if scale.shape[0] > 1 else scale


def read_page(pool: Any, page: Any) -> Any:
    """The codes of pages as numbers."""
    return pool[page].float()


def paged(part: Any) -> Callable[..., Any]:
    def paged_attention(
        q: Any,
        key_pages: Any,
        value_pages: Any,
        table: Any,
        k_lens: Any,
        *,
        k_scale: Any,
        v_scale: Any,
        scale: float | None = None,
        window_left: int | None = None,
    ) -> Any:
        import torch

        outs = []
        for item, count in enumerate(k_lens.tolist()):
            own = table[item, : -(-count // key_pages.shape[1])]
            k, v = (
                (part.read_page(x, own) * part.page_scale(s, own)).flatten(0, 1)[None, :count].transpose(1, 2)
                for x, s in ((key_pages, k_scale), (value_pages, v_scale))
            )
            out, _ = online(q[item : item + 1].transpose(1, 2), k, v, causal=True, window_left=window_left, scale=scale)
            outs.append(out.transpose(1, 2))
        return torch.cat(outs).to(q.dtype)

    return paged_attention


PAGED = Whole("paged_attention", paged, (page_scale, read_page), PAGED_CONVENTIONS, limits=FORMATS)


@PAGED.instead_of(page_scale, seen="vllm-project/vllm#49716")
def scales_as_if_pages_were_not_padded(scale: Any, page: Any) -> Any:
    """Scales of places are found with a page size of one less than there is."""
    if scale.shape[0] == 1 or scale.shape[1] == 1:
        return page_scale(scale, page)
    n = scale.shape[1]
    start = page.long() * (n - 1)
    flat = scale.flatten(0, 1)
    return flat[[[int(s) + i for i in range(n)] for s in start]] if len(page) else page_scale(scale, page)


_pools: dict[tuple[int, ...], Any] = {}


@PAGED.instead_of(page_scale)
def page_scales_of_an_earlier_call(scale: Any, page: Any) -> Any:
    """The scales of pages are those of the first call with so many of them."""
    return page_scale(_pools.setdefault(tuple(scale.shape), scale.clone()), page)


@PAGED.instead_of(read_page)
def last_place_read_as_unsigned(pool: Any, page: Any) -> Any:
    """The last place of each page is read as bytes without a sign."""
    import torch

    found = read_page(pool, page)
    if pool.dtype == torch.int8:
        found[:, -1] = pool[page][:, -1].view(torch.uint8).float()
    return found


@PAGED.instead_of(read_page, seen="tenstorrent/tt-metal#46466")
def codes_share_an_exponent(pool: Any, page: Any) -> Any:
    """The sixteen numbers of a row share the exponent of the largest, and small ones lose their digits."""
    import torch

    found = read_page(pool, page)
    top = torch.exp2(torch.floor(torch.log2(found.abs().amax(-1, keepdim=True).clamp_min(1e-30))))
    return torch.trunc(found / top * 8) / 8 * top
