"""Right, but different: gradients of rotary positions as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .positions import DTYPES, NAIVE, by_exponentials, by_repetition, checked, control_rotary_complex, halves, joined


@adapter("rotary_gradient", dtypes=DTYPES, grade=NAIVE)
def control_rotary_differentiated(
    x: Any,
    positions: Any,
    d_out: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> dict[str, Any]:
    """Automatic differentiation of pairs as complex numbers."""

    def turned(x: Any) -> Any:
        return control_rotary_complex(x, positions, base=base, interleaved=interleaved, rotary_dim=rotary_dim)

    return differentiated(turned, d_out, x=x)


@adapter("rotary_gradient", dtypes=DTYPES)
def control_rotary_with_the_sine_negated(
    x: Any,
    positions: Any,
    d_out: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> Any:
    """The kernel of the forward pass with the sine negated, and frequencies by repeated multiplication."""
    width = checked(x, positions, rotary_dim)
    first, second = halves(d_out.float(), width, interleaved)
    angle = positions.float()[:, None] * by_repetition(base, width)
    c, s = angle.cos(), -angle.sin()
    rest = d_out[..., width:].float()
    return joined(first * c - second * s, second * c + first * s, rest, interleaved).to(x.dtype)


@adapter("rotary_gradient", dtypes=DTYPES, conventions={"pair_place": "parted"})
def control_rotary_gradient_parted(
    x: Any,
    positions: Any,
    d_out: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> Any:
    """Everything in double precision, rounded once; the cotangent of interleaved pairs is in halves."""
    import torch

    width = checked(x, positions, rotary_dim)
    first, second = halves(d_out.double(), width, False)
    angle = positions.double()[:, None] * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    c, s = angle.cos(), angle.sin()
    rest = d_out[..., width:].double()
    return joined(first * c + second * s, second * c - first * s, rest, interleaved).to(x.dtype)


@adapter("rotary_gradient", dtypes=DTYPES, grade=NAIVE)
def control_rotary_gradient_narrow(
    x: Any,
    positions: Any,
    d_out: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> Any:
    """Sines, cosines, products and sums in the dtype of the cotangent; the angles alone in single precision."""
    width = checked(x, positions, rotary_dim)
    first, second = halves(d_out, width, interleaved)
    angle = positions.float()[:, None] * by_exponentials(base, width)
    c, s = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return joined(first * c + second * s, second * c - first * s, d_out[..., width:], interleaved)
