"""Right, but different: positions as kernels compute them, none of which a law may accuse.

Frequencies by repeated multiplication or by exponentials, angles as complex numbers or from tables, and rotations in
double, single or half precision; the angles are never in less than single precision.
"""

from __future__ import annotations

import math
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
NAIVE = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"}


def halves(x: Any, width: int, interleaved: bool) -> tuple[Any, Any]:
    """The first and the second channels of all pairs: two of [..., width / 2]."""
    x = x[..., :width]
    return (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., : width // 2], x[..., width // 2 :])


def joined(first: Any, second: Any, rest: Any, interleaved: bool) -> Any:
    """Pairs back in their places, and what follows them."""
    import torch

    both = torch.stack((first, second), -1).flatten(-2) if interleaved else torch.cat((first, second), -1)
    return torch.cat((both, rest), -1)


def checked(x: Any, positions: Any, rotary_dim: int | None) -> int:
    """The width that is turned; what cannot be turned is a `ValueError`."""
    width = x.shape[-1] if rotary_dim is None else rotary_dim
    if width % 2 or width > x.shape[-1] or len(positions) != x.shape[-2]:
        raise ValueError("channels come in pairs, and every token has a position")
    return width


def by_exponentials(base: float, width: int) -> Any:
    """The frequencies by exponentials, in single precision: [width / 2]."""
    import torch

    return torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(base) / width))


def by_repetition(base: float, width: int) -> Any:
    """Each frequency from the one before it, in single precision: [width / 2]."""
    import torch

    ratio, frequencies = torch.tensor(base, dtype=torch.float32) ** (-2 / width), [torch.tensor(1.0)]
    for _ in range(width // 2 - 1):
        frequencies.append(frequencies[-1] * ratio)
    return torch.stack(frequencies)


@adapter("rotary", dtypes=DTYPES)
def control_rotary_complex(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """Pairs as complex numbers, multiplied by others of length one."""
    import torch

    width = checked(x, positions, rotary_dim)
    first, second = halves(x.float(), width, interleaved)
    frequency = 1.0 / base ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
    angle = positions.float()[:, None] * frequency
    turned = torch.complex(first.contiguous(), second.contiguous()) * torch.polar(torch.ones_like(angle), angle)
    return joined(turned.real, turned.imag, x[..., width:].float(), interleaved).to(x.dtype)


@adapter("rotary", dtypes=DTYPES)
def control_rotary_repeated(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """Frequencies by repeated multiplication."""
    width = checked(x, positions, rotary_dim)
    first, second = halves(x.float(), width, interleaved)
    angle = positions.float()[:, None] * by_repetition(base, width)
    c, s = angle.cos(), angle.sin()
    return joined(first * c - second * s, first * s + second * c, x[..., width:].float(), interleaved).to(x.dtype)


@adapter("rotary", dtypes=DTYPES)
def control_rotary_angles(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """Angles added on from position to position, as a cache of them is made."""
    import torch

    width = checked(x, positions, rotary_dim)
    frequency = by_exponentials(base, width)
    first, second = halves(x.float(), width, interleaved)
    table = torch.outer(torch.arange(int(positions.abs().max()) + 1 if len(positions) else 1).float(), frequency)
    angle = table[positions.abs()] * positions.sign()[:, None]
    c, s = angle.cos(), angle.sin()
    out = x.float().clone()
    a, b = halves(out, width, interleaved)
    a.copy_(first * c - second * s)
    b.copy_(second * c + first * s)
    return out.to(x.dtype)


@adapter("rotary", dtypes=DTYPES, conventions={"pair_place": "parted"})
def control_rotary_parted(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """Everything in double precision, rounded once; pairs come back in halves."""
    import torch

    width = checked(x, positions, rotary_dim)
    first, second = halves(x.double(), width, interleaved)
    angle = positions.double()[:, None] * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    c, s = angle.cos(), angle.sin()
    return joined(first * c - second * s, first * s + second * c, x[..., width:].double(), False).to(x.dtype)


@adapter("rotary", dtypes=DTYPES, grade=NAIVE)
def control_rotary_narrow(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """Sines, cosines, products and sums in the dtype of the inputs; the angles alone in single precision."""
    import torch

    width = checked(x, positions, rotary_dim)
    angle = positions.float()[:, None] * by_exponentials(base, width)
    twice = angle.repeat_interleave(2, -1) if interleaved else torch.cat((angle, angle), -1)
    c, s = twice.cos().to(x.dtype), twice.sin().to(x.dtype)
    first, second = halves(x, width, interleaved)
    swapped = joined(-second, first, x[..., :0], interleaved)
    return torch.cat((x[..., :width] * c + swapped * s, x[..., width:]), -1)


@adapter("rotary_pair", dtypes=DTYPES)
def control_rotary_pair_complex(
    q: Any,
    k: Any,
    positions: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
    inverse: bool = False,
) -> Any:
    """Heads of queries and keys beside each other, as complex numbers, with those of a rotation or their conjugates."""
    import torch

    x = torch.cat((q, k), 1).float()
    width = checked(x, positions[0], rotary_dim)
    first, second = halves(x, width, interleaved)
    angle = positions.float()[:, None, :, None] * by_exponentials(base, width)
    turn = torch.polar(torch.ones_like(angle), angle)
    turned = torch.complex(first.contiguous(), second.contiguous()) * (turn.conj() if inverse else turn)
    out = joined(turned.real, turned.imag, x[..., width:], interleaved).to(q.dtype)
    return {"q_out": out[:, : q.shape[1]].clone(), "k_out": out[:, q.shape[1] :].clone()}


@adapter("rotary_pair", dtypes=DTYPES)
def control_rotary_pair_in_place(
    q: Any,
    k: Any,
    positions: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
    inverse: bool = False,
) -> Any:
    """Token by token in double precision, in copies that are written in place, the keys first."""
    found = {"k_out": k.double(), "q_out": q.double()}
    if positions.shape != q.shape[::2]:
        raise ValueError("every token has a position")
    found = {name: x.clone() for name, x in found.items()}
    for x in found.values():
        width = checked(x, positions[0], rotary_dim)
        frequency = by_exponentials(base, width).double()
        for item, row in enumerate(positions.tolist()):
            for token, position in enumerate(row):
                first, second = halves(x[item, :, token], width, interleaved)
                c, s = (position * frequency).cos(), (position * frequency).sin() * (-1 if inverse else 1)
                turned = first * c - second * s, second * c + first * s
                first.copy_(turned[0])
                second.copy_(turned[1])
    return {name: x.to(q.dtype) for name, x in found.items()}


@adapter("sinusoidal", conventions={"columns": "alternating", "spacing": "by_width"})
def control_sinusoidal_repeated(*, length: int, dim: int, base: float = 10000.0, offset: int = 0) -> Any:
    """Frequencies by repeated multiplication, and cosines as sines a quarter of a turn further on."""
    import torch

    angle = torch.arange(offset, offset + length).float()[:, None] * by_repetition(base, dim + dim % 2)
    if dim % 2:
        angle = torch.arange(offset, offset + length).float()[:, None] * by_exponentials(base, dim)
    return torch.stack((angle.sin(), (angle + math.pi / 2).sin()), -1).flatten(-2)[:, :dim]


@adapter("sinusoidal", conventions={"columns": "sines_first", "spacing": "to_base"})
def control_sinusoidal_exponentials(*, length: int, dim: int, base: float = 10000.0, offset: int = 0) -> Any:
    """Frequencies by exponentials, evenly spaced from one to one over the base."""
    import torch

    spacing = -math.log(base) / max(dim // 2 - 1, 1)
    frequency = torch.exp(torch.arange(dim // 2, dtype=torch.float32) * spacing)
    angle = torch.arange(offset, offset + length).float()[:, None] * frequency
    return torch.cat((angle.sin(), angle.cos()), -1)


@adapter("sinusoidal", conventions={"columns": "cosines_first", "spacing": "by_width"})
def control_sinusoidal_phases(*, length: int, dim: int, base: float = 10000.0, offset: int = 0) -> Any:
    """Everything in double precision, as the parts of complex numbers, rounded once."""
    import torch

    frequency = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.outer(torch.arange(offset, offset + length).double(), frequency)
    phase = torch.polar(torch.ones_like(angle), angle)
    return torch.cat((phase.real, phase.imag), -1).float()


@adapter("learned_position", dtypes=DTYPES)
def control_learned_one_hot(x: Any, table: Any, *, offset: int = 0) -> Any:
    """Rows by a product with rows of the identity, in single precision."""
    import torch

    if offset < 0 or offset + x.shape[1] > len(table):
        raise ValueError("a position is beyond the table")
    chosen = torch.eye(len(table))[offset : offset + x.shape[1]]
    return (chosen @ table.float() + x.float()).to(x.dtype)


@adapter("learned_position", dtypes=DTYPES)
def control_learned_columns(x: Any, table: Any, *, offset: int = 0) -> Any:
    """Token by token and in the dtype of the inputs, into an array of zeros."""
    import torch

    out = torch.zeros(x.shape, dtype=x.dtype)
    for p in range(x.shape[1]):
        row = table[torch.tensor(offset + p)] if offset >= 0 else table[len(table)]
        out[:, p].copy_(row)
    return out.add_(x)


@adapter("rotary_frequencies")
def control_rope_by_wavelengths(
    short_factor: Any = 1.0,
    long_factor: Any = 1.0,
    *,
    kind: str = "default",
    dim: int,
    rotary_dim: int | None = None,
    base: float = 10000.0,
    factor: float = 4.0,
    trained: int = 2048,
    length: int = 1,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    attention_factor: float | None = None,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
) -> Any:
    """Everything by the lengths of a turn, and in single precision but for the limits of the ramp."""
    import torch

    width = dim if rotary_dim is None or kind == "proportional" else rotary_dim
    if dim % 2 or base <= 1:
        raise ValueError("channels come in pairs, and the base is above one")
    if kind == "dynamic":
        base *= (1 + factor * max(length / trained - 1, 0)) ** (width / (width - 2))
    wave = 2 * math.pi * base ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
    if kind == "linear":
        wave = wave * factor
    elif kind == "longrope":
        wave = wave * (long_factor if length > trained else short_factor)
    elif kind == "llama3":
        share = (trained / wave - low_freq_factor) / (high_freq_factor - low_freq_factor)
        wave = wave * factor / (1 + share.clamp(0, 1) * (factor - 1))
    elif kind == "yarn":
        ends = [width * math.log(trained / (2 * math.pi * n), base) / 2 for n in (beta_fast, beta_slow)]
        low, high = (math.floor(ends[0]), math.ceil(ends[1])) if truncate else ends
        low, high = max(low, 0), min(high, width - 1)
        ramp = ((torch.arange(width // 2) - low) / (high - low or 0.001)).clamp(0, 1)
        wave = wave / (1 + ramp * (1 / factor - 1))
    frequencies = 2 * math.pi / wave
    if kind == "proportional":
        frequencies = frequencies / factor
        frequencies[(dim if rotary_dim is None else rotary_dim) // 2 :] = 0
    scaling = 1.0
    if kind == "yarn":
        scaling, both = 1 + 0.1 * math.log(factor), mscale is not None and mscale_all_dim is not None
        if both:
            scaling = (1 + 0.1 * (mscale or 0) * math.log(factor)) / (
                1 + 0.1 * (mscale_all_dim or 0) * math.log(factor)
            )
    elif kind == "longrope":
        scaling = math.sqrt(math.log(factor * trained, trained))
    given = attention_factor is not None and kind in ("yarn", "longrope")
    return {"frequencies": frequencies, "scaling": attention_factor if given else scaling}


def axes_of(sections: Any, width: int, striped: bool) -> Any:
    """The axis of each pair: one section after the other, or in turn, the first one for the rest: [width / 2]."""
    import torch

    pair, sections = torch.arange(width // 2), torch.as_tensor(sections).long()
    turn = pair % len(sections)
    in_turn = torch.where(pair < len(sections) * sections[turn], turn, 0)
    return in_turn if striped else torch.arange(len(sections)).repeat_interleave(sections)


@adapter("mrope", dtypes=DTYPES)
def control_mrope_by_axis(
    x: Any, positions: Any, *, sections: Any, base: float = 10000.0, interleaved: bool = False, striped: bool = False
) -> Any:
    """Sines and cosines of every axis for all pairs, from which those of its section are taken."""
    import torch

    width, sections = x.shape[-1], [int(n) for n in sections]
    if 2 * sum(sections) != width or positions.shape[2] != x.shape[2]:
        raise ValueError("every pair has an axis, and every token a position on each")
    angle = positions.float()[..., None] * by_exponentials(base, width)  # [axes, batch, length, pairs]
    if striped:
        own = angle[0].clone()
        for a in range(1, len(sections)):
            stripe = slice(a, len(sections) * sections[a], len(sections))
            own[..., stripe] = angle[a, ..., stripe]
    else:
        own = torch.cat([part[a] for a, part in enumerate(angle.split(sections, -1))], -1)
    c, s = own.cos()[:, None], own.sin()[:, None]
    first, second = halves(x.float(), width, interleaved)
    return joined(first * c - second * s, first * s + second * c, x[..., :0].float(), interleaved).to(x.dtype)


@adapter("mrope", dtypes=DTYPES, grade=NAIVE)
def control_mrope_narrow(
    x: Any, positions: Any, *, sections: Any, base: float = 10000.0, interleaved: bool = False, striped: bool = False
) -> Any:
    """The axis of each pair first, and sines, cosines, products and sums in the dtype of the inputs."""
    width, sections = x.shape[-1], [int(n) for n in sections]
    if 2 * sum(sections) != width or positions.shape[2] != x.shape[2]:
        raise ValueError("every pair has an axis, and every token a position on each")
    angle = positions[axes_of(sections, width, striped)].permute(1, 2, 0).float() * by_exponentials(base, width)
    c, s = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None]
    first, second = halves(x, width, interleaved)
    return joined(first * c - second * s, first * s + second * c, x[..., :0], interleaved)
