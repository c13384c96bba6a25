"""The gated feed-forward layer of x-transformers.

Source: https://github.com/lucidrains/x-transformers, x_transformers/x_transformers.py (FeedForward and GLU).
One matrix makes both products, the gate last; the first layer has a bias whatever `no_bias` says, which is zero here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .. import adapter
from ..torch.layers import new_layer


@adapter(
    "swiglu",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_feed_forward(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """FeedForward of x_transformers with glu and swish."""
    import torch
    from x_transformers.x_transformers import FeedForward

    dim, hidden = w_gate.shape
    mult: Any = Fraction(hidden, dim)
    module = new_layer(FeedForward, dim, mult=mult, glu=True, swish=True, no_bias=True).to(x.dtype)
    first, last = module.ff[0].proj, module.ff[-1]
    with torch.no_grad():
        first.weight = torch.nn.Parameter(torch.cat([w_up, w_gate], -1).mT.contiguous())
        first.bias = torch.nn.Parameter(torch.zeros(2 * hidden, dtype=x.dtype))
        last.weight = torch.nn.Parameter(w_down.mT.contiguous())
        return module(x)
