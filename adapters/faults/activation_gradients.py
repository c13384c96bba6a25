"""Gradients of gated activations: what goes wrong with memory that is used again, vectors and precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.activation_gradients import joined
from ..controls.activations import parted
from .whole import Whole

VECTOR = 8
"""Units that are loaded at once."""


def kept(x: Any) -> Any:
    """Gates and their partners from the forward pass, as they were kept."""
    return x


def read(d_out: Any) -> Any:
    """The cotangent as it is read."""
    return d_out.float()


def bend(z: Any) -> Any:
    """What a gate becomes, and its slope there."""
    import torch

    share = torch.sigmoid(z)
    return z * share, share * (1 + z * (1 - share))


def written(gradient: Any, x: Any) -> Any:
    """The gradient as it is stored."""
    return gradient.to(x.dtype)


def by_parts(part: Any) -> Callable[..., Any]:
    def gated_activation_gradient(x: Any, d_out: Any, *, order: str = "gate_first", beta: float = 0.0) -> Any:
        d = part.read(d_out)
        gate, up = (each.float() for each in parted(part.kept(x), order))
        opened, slope = part.bend(gate)
        return part.written(joined(d * (up + beta) * slope, d * opened, order), x)

    return gated_activation_gradient


UNITS = Whole("gated_activation_gradient", by_parts, (kept, read, bend, written))
_first: dict[tuple[int, ...], Any] = {}


@UNITS.instead_of(kept)
def units_of_an_earlier_call(x: Any) -> Any:
    """Gates and partners are those of the first call with arrays of this shape."""
    return _first.setdefault(tuple(x.shape), x.clone())


@UNITS.instead_of(kept)
def gates_by_their_memory(x: Any) -> Any:
    """Gates and partners are read as they lie in memory, whatever their strides are."""
    if x.is_contiguous() or 0 in x.stride() or x.storage_offset():
        return x
    return x.as_strided(x.shape, x.new_empty(x.shape).stride())


@UNITS.instead_of(read)
def cotangent_halved_in_place(d_out: Any) -> Any:
    """The cotangent is changed where it lies."""
    found = d_out.float()
    d_out.mul_(0.5)
    return found


@UNITS.instead_of(read, dtypes=("float32",))
def cotangent_read_in_bfloat16(d_out: Any) -> Any:
    """The cotangent is read in bfloat16."""
    return d_out.bfloat16().float()


@UNITS.instead_of(bend)
def slope_by_a_quotient_of_exponentials(z: Any) -> Any:
    """The slope is a quotient of exponentials, which overflow at large gates."""
    import torch

    grown = torch.exp(z)
    return z * torch.sigmoid(z), grown * (1 + z + grown) / (1 + grown) ** 2


@UNITS.instead_of(bend)
def slope_by_finite_differences(z: Any) -> Any:
    """The slope is a difference quotient of a thousandth."""
    import torch

    silu = torch.nn.functional.silu
    return silu(z), (silu(z + 1e-3) - silu(z)) * 1e3


@UNITS.instead_of(bend, dtypes=("float32",))
def slope_kept_in_float16(z: Any) -> Any:
    """The slope is kept in float16."""
    opened, slope = bend(z)
    return opened, slope.half().float()


@UNITS.instead_of(written)
def gradient_of_whole_vectors_alone(gradient: Any, x: Any) -> Any:
    """A last vector that is not full is not written."""
    found, n = gradient.to(x.dtype).clone(), x.shape[-1]
    found[..., n - n % VECTOR if n > VECTOR else n :] = 0
    return found


@UNITS.instead_of(written)
def gradient_written_over_the_gates(gradient: Any, x: Any) -> Any:
    """The gradient takes the place of what it is the gradient of."""
    return x.copy_(gradient)
