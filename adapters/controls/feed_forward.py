"""Right, but different: feed-forward layers that compute as kernels do, and that no law may accuse."""

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


def activated(z: Any, activation: str) -> Any:
    """The function of hidden units, as torch has it."""
    import torch

    if activation == "quick_gelu":
        return z * torch.sigmoid(1.702 * z)
    functional = torch.nn.functional
    if activation == "relu_squared":
        return functional.relu(z).square()
    if activation in ("gelu", "gelu_tanh"):
        return functional.gelu(z, approximate="tanh" if activation == "gelu_tanh" else "none")
    return {"relu": functional.relu, "silu": functional.silu}[activation](z)


@adapter("feed_forward", dtypes=DTYPES)
def control_maps_one_after_the_other(
    x: Any,
    w_up: Any,
    w_down: Any,
    b_up: Any = None,
    b_down: Any = None,
    w_gate: Any = None,
    b_gate: Any = None,
    *,
    activation: str = "gelu",
) -> Any:
    """Linear layers of torch, one after the other."""
    from torch.nn.functional import linear

    up = linear(x, w_up.mT, b_up)
    inner = activated(up, activation) if w_gate is None else activated(linear(x, w_gate.mT, b_gate), activation) * up
    return linear(inner, w_down.mT, b_down)


@adapter("feed_forward", dtypes=DTYPES)
def control_biases_as_channels(
    x: Any, w_up: Any, w_down: Any, b_up: Any = None, b_down: Any = None, *, activation: str = "gelu"
) -> Any:
    """Biases are rows of the matrices, for a channel of ones, and the function is computed in single precision."""
    import torch

    def mapped(x: Any, w: Any, b: Any) -> Any:
        ones = torch.ones_like(x[..., :1])
        return x @ w if b is None else torch.cat([x, ones], -1) @ torch.cat([w, b[None]])

    inner = activated(mapped(x.float(), w_up.float(), None if b_up is None else b_up.float()), activation)
    return mapped(inner.to(x.dtype), w_down, b_down)


@adapter("feed_forward", dtypes=DTYPES)
def control_tiles_of_a_layer(
    x: Any,
    w_up: Any,
    w_down: Any,
    b_up: Any = None,
    b_down: Any = None,
    w_gate: Any = None,
    b_gate: Any = None,
    *,
    activation: str = "gelu",
) -> Any:
    """Sixteen hidden units at a time, the last ones first, in single precision, and the last bias added at the end."""
    import torch

    total = torch.zeros(x.shape)
    for first in reversed(range(0, w_up.shape[-1], 16)):
        units = slice(first, first + 16)
        up = x.float() @ w_up[:, units].float() + (0 if b_up is None else b_up[units].float())
        gate = up if w_gate is None else x.float() @ w_gate[:, units].float()
        gate = gate if b_gate is None else gate + b_gate[units].float()
        opened = activated(gate, activation)
        total = total + (opened if w_gate is None else opened * up) @ w_down[units].float()
    return (total if b_down is None else total + b_down.float()).to(x.dtype)
