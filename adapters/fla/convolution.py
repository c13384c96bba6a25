"""The short convolution of flash-linear-attention and its gradients, which are written in Triton.

Source: https://github.com/fla-org/flash-linear-attention (fla/modules/causal_conv1d)
A state has as many inputs as there are weights, of which the first is not read, and has a gradient of zero.
"""

# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

from ..torch.gradients import differentiated
from ..triton.interpreter import declared
from .kernels import DECLARED

CONVOLUTION: dict[str, Any] = {**DECLARED, "layout": "bsd", "package": "fla.modules"}


def widened(state: Any) -> Any:
    """A state with an input before it that is not read, or None for none."""
    import torch

    return None if state is None else torch.nn.functional.pad(state, (1, 0))


@declared("short_convolution", **CONVOLUTION)
def fla_convolution(x: Any, weight: Any, bias: Any = None, state: Any = None, *, silu: bool = False) -> Any:
    """causal_conv1d, with the state that is left."""
    from fla.modules.causal_conv1d import causal_conv1d

    if len(weight) != x.shape[2]:
        raise ValueError("every channel has weights")
    activation = "silu" if silu else None
    out, left = causal_conv1d(
        x, weight, bias, initial_state=widened(state), output_final_state=True, activation=activation
    )
    return {"out": out, "final_state": left[..., 1:]}


@declared("short_convolution_gradient", **CONVOLUTION)
def fla_convolution_gradient(
    x: Any,
    weight: Any,
    d_out: Any,
    bias: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    silu: bool = False,
) -> dict[str, Any]:
    """The backward pass of causal_conv1d, from its output and from the state that is left."""

    def out(x: Any, weight: Any, bias: Any, state: Any) -> Any:
        return fla_convolution(x, weight, bias, state, silu=silu)

    asked = {"final_state": d_final_state}
    return differentiated(out, d_out, further=asked, x=x, weight=weight, bias=bias, state=state)
