"""The layers of timm around its attention: rotary embedding, root mean square, gated feed-forward.

Source: https://github.com/huggingface/pytorch-image-models, timm/layers (pos_embed_sincos.py, norm.py, mlp.py).
Models make their tables of sines and cosines in float32, and the rotation is computed in the wider dtype.
The library keeps its matrices transposed.
"""

# Where the package is not installed, its name is taken for that of this folder.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.layers import new_layer
from ..torch.norms import with_parameters
from ..transformers.feed_forward import loaded

DTYPES = ("float32", "bfloat16", "float16", "float64")
declared = functools.partial(adapter, dtypes=DTYPES, package="timm", extra="timm")


@declared("rotary", grade={"float64": "fp32"}, conventions={"pair_place": "kept"})
def timm_rotary(x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False) -> Any:
    """apply_rot_embed_cat, in both of its layouts."""
    import torch
    from timm.layers import apply_rot_embed_cat

    width = x.shape[-1] // 2
    angles = positions[:, None].float() * base ** (-torch.arange(width, device=x.device).float() / max(width, 1))
    angles = angles.repeat_interleave(2, -1) if interleaved else angles.repeat(1, 2)
    return apply_rot_embed_cat(x, torch.cat([angles.sin(), angles.cos()], -1), half=not interleaved)


@declared(
    "rms_norm",
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    conventions={"eps_place": "inside", "weight_form": "plain"},
)
def timm_rms_norm(x: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """RmsNorm of timm, in the dtype of its input."""
    from timm.layers import RmsNorm

    return with_parameters(RmsNorm(x.shape[-1], eps=eps), weight=weight)(x)


@declared("swiglu")
def timm_swiglu(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """SwiGLU of timm, without biases."""
    from timm.layers import SwiGLU

    layer = new_layer(SwiGLU, *w_gate.shape, bias=False).eval()
    for linear, w in ((layer.fc1_g, w_gate), (layer.fc1_x, w_up), (layer.fc2, w_down)):
        loaded(linear, w)
    return layer(x)
