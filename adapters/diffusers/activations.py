"""Gated activations of one array, as GEGLU and SwiGLU of diffusers make them of a product with two matrices.

Documentation: https://huggingface.co/docs/diffusers/api/activations
The second half has the gates; the product in front is left out here.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")
FIXED: dict[str, Any] = {"order": "up_first", "alpha": 1.0, "beta": 0.0, "limit": None, "limit_opened": False}
declared = functools.partial(adapter, "gated_activation", dtypes=DTYPES, package="diffusers", extra="diffusers")


def activated(kind: str, x: Any) -> Any:
    import torch
    from diffusers.models import activations

    if x.shape[-1] % 2 or not x.shape[-1]:
        raise ValueError("every gate has a partner")
    layer = new_layer(getattr(activations, kind), 1, 1)
    layer.proj = torch.nn.Identity()
    return layer(x)


@declared(fixed={"activation": "gelu", **FIXED})
def diffusers_geglu(x: Any) -> Any:
    """GEGLU of diffusers."""
    return activated("GEGLU", x)


@declared(fixed={"activation": "silu", **FIXED})
def diffusers_swiglu(x: Any) -> Any:
    """SwiGLU of diffusers."""
    return activated("SwiGLU", x)
