"""The feed-forward layers of diffusers, with biases: with a gate, as GEGLU and SwiGLU, or without one, as GELU.

Documentation: https://huggingface.co/docs/diffusers; source: diffusers/models/attention.py (FeedForward).
One matrix makes both products, the gate last.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.layers import new_layer
from ..transformers.feed_forward import loaded

NAIVE = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"}
declared = functools.partial(
    adapter, "feed_forward", dtypes=tuple(NAIVE), grade=NAIVE, package="diffusers", extra="diffusers"
)


def fed_forward(kind: str, x: Any, first: Any, bias: Any, w_down: Any, b_down: Any) -> Any:
    """FeedForward of diffusers with the first matrix, which may hold a gate, and the last one."""
    from diffusers.models.attention import FeedForward

    module = new_layer(FeedForward, x.shape[-1], inner_dim=len(w_down), activation_fn=kind).to(x.dtype).eval()
    loaded(module.net[0].proj, first, x.new_zeros(first.shape[-1]) if bias is None else bias)
    loaded(module.net[2], w_down, x.new_zeros(x.shape[-1]) if b_down is None else b_down)
    return module(x)


@declared(fixed={"activation": "gelu"})
def diffusers_gelu_feed_forward(x: Any, w_up: Any, w_down: Any, b_up: Any = None, b_down: Any = None) -> Any:
    """FeedForward of diffusers with GELU."""
    return fed_forward("gelu", x, w_up, b_up, w_down, b_down)


def gated(kind: str, x: Any, w_up: Any, w_down: Any, w_gate: Any, b_up: Any, b_down: Any, b_gate: Any) -> Any:
    """The same with a gate beside the first matrix."""
    import torch

    biases = [x.new_zeros(w_up.shape[-1]) if b is None else b for b in (b_up, b_gate)]
    return fed_forward(kind, x, torch.cat([w_up, w_gate], -1), torch.cat(biases), w_down, b_down)


@declared(fixed={"activation": "gelu"}, requires=("not single(w_gate)",))
def diffusers_geglu_feed_forward(
    x: Any, w_up: Any, w_down: Any, w_gate: Any, b_up: Any = None, b_down: Any = None, b_gate: Any = None
) -> Any:
    """FeedForward of diffusers with GEGLU."""
    return gated("geglu", x, w_up, w_down, w_gate, b_up, b_down, b_gate)


@declared(fixed={"activation": "silu"}, requires=("not single(w_gate)",))
def diffusers_swiglu_feed_forward(
    x: Any, w_up: Any, w_down: Any, w_gate: Any, b_up: Any = None, b_down: Any = None, b_gate: Any = None
) -> Any:
    """FeedForward of diffusers with SwiGLU."""
    return gated("swiglu", x, w_up, w_down, w_gate, b_up, b_down, b_gate)
