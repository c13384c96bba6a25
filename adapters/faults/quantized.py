"""Codes with scales, and what goes wrong with their bits, with narrow arithmetic, and with what outlives a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import CONVENTIONS, online
from ..controls.packed import CONVENTIONS as PACKED_CONVENTIONS
from ..controls.packed import batched
from ..controls.quantized import FORMATS
from ..controls.quantized_paged import PAGED as PAGED_CONVENTIONS
from ..torch.packed import cumulative
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
    import torch

    n = scale.shape[1]
    return scale.flatten(0, 1)[page.long()[:, None] * (n - 1) + torch.arange(n)]


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


# Caches


def written(codes: Any, scale: Any) -> Any:
    """What is kept of a chunk."""
    return codes.float() * scale


def cache_scales(scale: Any, length: int, start: int, n: int) -> Any:
    """The scales of a chunk that begins at a token."""
    return scale[:, :, start : start + n] if scale.shape[2] > 1 else scale


def cached(part: Any) -> Callable[..., Any]:
    def cached_attention(
        q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], k_scale: Any, v_scale: Any, scale: float | None = None
    ) -> Any:
        import torch

        kept: list[list[Any]] = [[], []]
        outs, start = [], 0
        for n in chunks:
            new = slice(start, start + n)
            for own, x, s in ((kept[0], k, k_scale), (kept[1], v, v_scale)):
                own.append(part.written(x[:, :, new], part.cache_scales(s, q.shape[2], start, n)))
            keys, values = (torch.cat(own, 2) for own in kept)
            outs.append(online(q[:, :, new], keys, values, causal=True, scale=scale)[0])
            start += n
        return torch.cat(outs, 2).to(q.dtype)

    return cached_attention


CACHED = Whole("cached_attention", cached, (written, cache_scales), {"grouping": "block"}, limits=FORMATS)


@CACHED.instead_of(cache_scales, seen="vllm-project/vllm#54035")
def scales_start_anew_in_long_caches(scale: Any, length: int, start: int, n: int) -> Any:
    """Behind the first eight tokens scales are taken from the start again."""
    return cache_scales(scale, length, start if start < 8 else 0, n)


@CACHED.instead_of(cache_scales)
def scale_of_prompt_for_steps(scale: Any, length: int, start: int, n: int) -> Any:
    """Single tokens have the scale of the first one."""
    return cache_scales(scale, length, start if n > 1 else 0, n)


@CACHED.instead_of(written)
def kept_in_the_narrow_format(codes: Any, scale: Any) -> Any:
    """What is kept is rounded to float8_e4m3fn once more, behind its scale."""
    import torch

    return written(codes, scale).to(torch.float8_e4m3fn).float()


@CACHED.instead_of(written)
def steps_kept_as_unsigned(codes: Any, scale: Any) -> Any:
    """Single tokens of integers are kept as bytes without a sign."""
    import torch

    if codes.dtype == torch.int8 and codes.shape[2] == 1:
        return codes.view(torch.uint8).float() * scale
    return written(codes, scale)


# Packs


def item_scale(scale: Any, item: int, lens: Any) -> Any:
    """The scale of an item."""
    return scale[min(item, len(scale) - 1)]


def packed(part: Any) -> Callable[..., Any]:
    def packed_attention(
        q: Any, k: Any, v: Any, q_lens: Any, k_lens: Any, *, k_scale: Any, v_scale: Any, scale: float | None = None
    ) -> Any:
        out = q.new_zeros((*q.shape[:2], v.shape[2]))
        q_at, k_at = cumulative(q_lens).tolist(), cumulative(k_lens).tolist()
        for item in range(len(q_lens)):
            own, past = slice(*q_at[item : item + 2]), slice(*k_at[item : item + 2])
            keys, values = (x[past].float() * part.item_scale(s, item, k_lens) for x, s in ((k, k_scale), (v, v_scale)))
            out[own] = online(*(batched(x) for x in (q[own], keys, values)), scale=scale)[0][0].transpose(0, 1)
        return out

    return packed_attention


PACKED = Whole("packed_attention", packed, (item_scale,), PACKED_CONVENTIONS, limits=FORMATS)


@PACKED.instead_of(item_scale)
def scales_of_items_in_order_of_length(scale: Any, item: int, lens: Any) -> Any:
    """Items are taken the longest first, and their scales as they lie."""
    order = sorted(range(len(lens)), key=lambda i: -int(lens[i]))
    return item_scale(scale, order.index(item), lens)


@PACKED.instead_of(item_scale)
def scale_of_the_last_item_unread(scale: Any, item: int, lens: Any) -> Any:
    """The last item has the scale of the one before it."""
    return item_scale(scale, min(item, max(len(lens) - 2, 0)), lens)
