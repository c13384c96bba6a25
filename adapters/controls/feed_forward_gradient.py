"""Right, but different: gradients of gated feed-forward layers as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .feed_forward import DTYPES
from .norm_gradients import partial_sums, wider

NAIVE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}


def rows_of(x: Any) -> Any:
    """The tokens of all axes in one: [tokens, channels]."""
    return x.reshape(-1, x.shape[-1])


@adapter("swiglu_gradient", dtypes=("float64", *DTYPES), grade=NAIVE)
def control_layers_differentiated(x: Any, w_gate: Any, w_up: Any, w_down: Any, d_out: Any) -> dict[str, Any]:
    """Automatic differentiation of layers that are stored one after the other."""
    import torch

    def layers(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
        return (torch.nn.functional.silu(x @ w_gate) * (x @ w_up)) @ w_down

    return differentiated(layers, d_out, x=x, w_gate=w_gate, w_up=w_up, w_down=w_down)


@adapter("swiglu_gradient", dtypes=DTYPES)
def control_hidden_units_computed_anew(x: Any, w_gate: Any, w_up: Any, w_down: Any, d_out: Any) -> dict[str, Any]:
    """Both products from the forward pass in the dtype, and what is between them in single precision, stored once."""
    import torch

    gate, up, d_h = x @ w_gate, x @ w_up, d_out @ w_down.mT
    z, d = gate.float(), d_h.float()
    share = torch.sigmoid(z)
    opened = z * share
    d_gate = (d * up.float() * (opened * (1 - share) + share)).to(x.dtype)
    d_up, inner = (d * opened).to(x.dtype), (opened * up.float()).to(x.dtype)
    tokens, ends = rows_of(x), rows_of(d_out)
    d_w = (tokens.mT @ rows_of(d_gate), tokens.mT @ rows_of(d_up), rows_of(inner).mT @ ends)
    return {
        "d_x": d_gate @ w_gate.mT + d_up @ w_up.mT,
        **dict(zip(("d_w_gate", "d_w_up", "d_w_down"), d_w, strict=True)),
    }


@adapter("swiglu_gradient", dtypes=DTYPES)
def control_matrices_side_by_side(x: Any, w_gate: Any, w_up: Any, w_down: Any, d_out: Any) -> dict[str, Any]:
    """One product with both matrices, the sigmoid by a tangent, tokens in blocks, in single precision throughout."""
    import torch

    tokens, d, both = wider(rows_of(x)), wider(rows_of(d_out)), wider(torch.cat((w_gate, w_up), -1))
    gate, up = (tokens @ both).chunk(2, -1)
    share = 0.5 + 0.5 * torch.tanh(gate / 2)
    d_h = d @ wider(w_down).mT
    d_both = torch.cat((d_h * up * share * (1 + gate * (1 - share)), d_h * gate * share), -1)
    d_w = partial_sums(tokens[:, :, None] * d_both[:, None, :]) if len(tokens) else torch.zeros(both.shape)
    d_gate, d_up = d_w.chunk(2, -1)
    found = {
        "d_x": (d_both @ both.mT).reshape(x.shape),
        "d_w_gate": d_gate,
        "d_w_up": d_up,
        "d_w_down": (gate * share * up).mT @ d,
    }
    return {name: gradient.to(x.dtype) for name, gradient in found.items()}
