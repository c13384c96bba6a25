"""Attention whose output is codes, and what goes wrong between its sums and the codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import CONVENTIONS, online
from ..controls.coded_output import LARGEST, meant
from .whole import Whole


def over(out: Any, scale: Any) -> Any:
    """Numbers over the scale of the output."""
    return out / scale


def within(ratio: Any) -> Any:
    """What lies beyond the range at its end."""
    return ratio.clamp(-LARGEST, LARGEST)


def cast(ratio: Any) -> Any:
    """The codes of numbers within the range."""
    import torch

    return ratio.to(torch.float8_e4m3fn)


def coding(part: Any) -> Callable[..., Any]:
    def attention(
        q: Any,
        k: Any,
        v: Any,
        *,
        out_scale: Any,
        k_scale: Any = None,
        v_scale: Any = None,
        mask: Any = None,
        causal: bool = False,
        scale: float | None = None,
    ) -> Any:
        out, _ = online(q, meant(k, k_scale), meant(v, v_scale), mask=mask, causal=causal, scale=scale)
        return part.cast(part.within(part.over(out, out_scale)))

    return attention


CODING = Whole("attention", coding, (over, within, cast), CONVENTIONS, limits={"kv_dtype": ("kv_as_given", "e4m3fn")})


_steps: dict[tuple[int, ...], Any] = {}


@CODING.instead_of(over)
def output_scale_of_an_earlier_call(out: Any, scale: Any) -> Any:
    """The scale of the output is that of the first call with scales of that shape, as in a graph that is replayed."""
    return over(out, _steps.setdefault(tuple(scale.shape), scale.clone()))


@CODING.instead_of(over)
def output_scale_found_anew(out: Any, scale: Any) -> Any:
    """The scale that is given is left out for the one with which the largest output fills the range."""
    return over(out, out.abs().amax().clamp_min(1e-30) / LARGEST)


@CODING.instead_of(over, dtypes=("float32",))
def reciprocal_in_eleven_bits(out: Any, scale: Any) -> Any:
    """The reciprocal of the scale is kept in float16, which small scales overflow."""
    return out * (1.0 / scale).half().float()


@CODING.instead_of(cast)
def bits_of_an_integer(ratio: Any) -> Any:
    """Numbers are rounded to integers before they are converted."""
    return cast(ratio.round())


@CODING.instead_of(cast)
def written_as_the_other_float(ratio: Any) -> Any:
    """The bytes are those of float8_e4m3fnuz, and are read as float8_e4m3fn."""
    import torch

    return ratio.clamp(-240, 240).to(torch.float8_e4m3fnuz).view(torch.float8_e4m3fn)


@CODING.instead_of(cast)
def output_not_coded(ratio: Any) -> Any:
    """The numbers over the scale are returned as they are, in bfloat16."""
    return ratio.bfloat16()


@CODING.instead_of(cast)
def last_codes_unwritten(ratio: Any) -> Any:
    """Codes are written four at a time, and those that are left at the end of a row are zero."""
    found, whole = cast(ratio), ratio.shape[-1] // 4 * 4
    found[..., whole:] = 0.0
    return found if whole else cast(ratio)


def of_all_chunks(outs: Any) -> Any:
    """What all chunks give, one after the other."""
    import torch

    return torch.cat(outs, 2)


def in_chunks(part: Any) -> Callable[..., Any]:
    def cached_attention(
        q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], out_scale: Any, scale: float | None = None
    ) -> Any:
        outs, start = [], 0
        for n in chunks:
            own = slice(start, start + n)
            keys, values = k[:, :, : own.stop], v[:, :, : own.stop]
            out, _ = online(q[:, :, own], keys, values, causal=True, scale=scale)
            outs.append(part.within(part.over(out, out_scale)))
            start += n
        return part.cast(part.of_all_chunks(outs))

    return cached_attention


CHUNKS = Whole("cached_attention", in_chunks, (over, within, cast, of_all_chunks), {"grouping": "block"})

_chunk_steps: dict[tuple[int, ...], Any] = {}


@CHUNKS.instead_of(over)
def scale_of_an_earlier_sequence(out: Any, scale: Any) -> Any:
    """The scale of the output is that of the first sequence with scales of that shape, as in a graph of decoding."""
    return over(out, _chunk_steps.setdefault(tuple(scale.shape), scale.clone()))


@CHUNKS.instead_of(of_all_chunks)
def coded_again_with_each_chunk(outs: Any) -> Any:
    """What earlier chunks gave is rounded to float8 and back, once more to fewer bits, when the next one is written."""
    import torch

    early = [out.to(torch.float8_e5m2).float() for out in outs[:-1]]
    return torch.cat([*early, outs[-1]], 2)
