"""Right, but different: gated feed-forward layers that compute as kernels do, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


@adapter("swiglu", dtypes=DTYPES)
def control_layer_by_layer(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """Every product and the function stored in the dtype of the inputs, as layers do one after the other."""
    import torch

    return (torch.nn.functional.silu(x @ w_gate) * (x @ w_up)) @ w_down


@adapter("swiglu", dtypes=DTYPES)
def control_fused_weights(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """One product with both matrices side by side, and the function in single precision."""
    import torch

    gate, up = (x @ torch.cat([w_gate, w_up], -1)).float().chunk(2, -1)
    return ((gate * torch.sigmoid(gate) * up).to(x.dtype) @ w_down).to(x.dtype)


@adapter("swiglu", dtypes=DTYPES)
def control_blocks_of_units(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """Sixteen hidden units at a time, the last ones first, the sigmoid by a tangent, in single precision throughout."""
    import torch

    total = torch.zeros(x.shape)
    blocks = list(
        zip(w_gate.float().split(16, -1), w_up.float().split(16, -1), w_down.float().split(16, 0), strict=True)
    )
    for first, second, last in reversed(blocks):
        gate = x.float() @ first
        total = total + (gate * (0.5 + 0.5 * torch.tanh(gate / 2)) * (x.float() @ second)) @ last
    return total.to(x.dtype)


@adapter("swiglu", dtypes=DTYPES)
def control_swiglu_float64(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """Everything in double precision, rounded once."""
    import torch

    gate = x.double() @ w_gate.double()
    return ((gate / (1 + torch.exp(-gate)) * (x.double() @ w_up.double())) @ w_down.double()).to(x.dtype)
