"""The backward pass of a short convolution, and what goes wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.convolution import extended
from .whole import Whole


def summed(d: Any, seen: Any) -> Any:
    """The gradient of the weights: outputs [batch, channels, length] by inputs [batch, channels, length, width]."""
    return (d[..., None] * seen).sum((0, 2))


def narrowed(d: Any) -> Any:
    """The gradients of outputs with the slope of SiLU."""
    return d


def ended(d_whole: Any, d_final_state: Any) -> Any:
    """The gradients of inputs by outputs, with those of the state that is left, which has the last ones."""
    d_whole[..., d_whole.shape[-1] - d_final_state.shape[-1] :] += d_final_state
    return d_whole


def convolution(part: Any) -> Callable[..., Any]:
    def short_convolution_gradient(
        x: Any,
        weight: Any,
        d_out: Any,
        bias: Any = None,
        state: Any = None,
        *,
        d_final_state: Any = None,
        silu: bool = False,
    ) -> Any:
        import torch

        width, whole = weight.shape[1], extended(x, weight, state)
        seen = whole.unfold(2, width, 1)
        y = (seen * weight.float()[:, None]).sum(3) + (0 if bias is None else bias.float()[:, None])
        d = part.narrowed(d_out.float() * (y.sigmoid() * (1 + y * (1 - y.sigmoid())) if silu else 1))
        d_whole = torch.zeros_like(whole)
        for i in range(width):
            d_whole[..., i : i + x.shape[2]] += d * weight.float()[:, i, None]
        d_whole = d_whole if d_final_state is None else part.ended(d_whole, d_final_state.float())
        found = {"d_x": d_whole[..., width - 1 :], "d_weight": part.summed(d, seen)}
        found |= {} if bias is None else {"d_bias": d.sum((0, 2))}
        found |= {} if state is None else {"d_state": d_whole[..., : width - 1]}
        return {name: g.to(x.dtype) for name, g in found.items()}

    return short_convolution_gradient


CONVOLUTION = Whole("short_convolution_gradient", convolution, (summed, narrowed, ended))
_weights: dict[Any, Any] = {}


@CONVOLUTION.instead_of(ended)
def state_gradient_written_over_outputs(d_whole: Any, d_final_state: Any) -> Any:
    """The gradients of the state that is left are written where those by outputs are."""
    d_whole[..., d_whole.shape[-1] - d_final_state.shape[-1] :] = d_final_state
    return d_whole


@CONVOLUTION.instead_of(ended, dtypes=("float32",))
def state_gradient_in_half_precision(d_whole: Any, d_final_state: Any) -> Any:
    """The gradients of the state that is left come in bfloat16."""
    return ended(d_whole, d_final_state.bfloat16().float())


@CONVOLUTION.instead_of(summed)
def weight_gradients_add_up_over_calls(d: Any, seen: Any) -> Any:
    """The gradient of weights is added to that of an earlier call."""
    found = summed(d, seen)
    _weights[found.shape] = found + _weights.get(found.shape, 0)
    return _weights[found.shape]


@CONVOLUTION.instead_of(summed, dtypes=("float32",))
def weight_gradients_in_half_precision(d: Any, seen: Any) -> Any:
    """The gradient of weights is added up in bfloat16, token by token."""
    import torch

    total = torch.zeros(seen.shape[1], seen.shape[3], dtype=torch.bfloat16)
    for t in range(seen.shape[2]):
        total = total + summed(d[..., t : t + 1], seen[:, :, t : t + 1]).bfloat16()
    return total.float()


@CONVOLUTION.instead_of(narrowed, dtypes=("float32",))
def gradients_of_outputs_in_half_precision(d: Any) -> Any:
    """The gradients of outputs are stored in bfloat16."""
    return d.bfloat16().float()
