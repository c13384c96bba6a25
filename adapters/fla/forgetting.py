"""Attention that forgets of flash-linear-attention: the kernel, which is written in Triton, and its form in torch.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops/forgetting_attn/parallel.py and naive.py)
The window of these functions counts the query's own key. Neither looks whether its gates fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from ..controls.forgetting import answering, fitting
from ..controls.packed_forgetting import packing
from ..torch.gradients import differentiated
from ..torch.packed import cumulative
from ..triton.interpreter import declared
from .kernels import DECLARED
from .naive import naive

BLOCK: dict[str, Any] = {"conventions": {"grouping": "block"}}
PLAIN: dict[str, Any] = {"layout": "bshd", "dtypes": ("float32", "bfloat16", "float16"), "package": "fla"}


def called(function: Callable[..., Any], window_left: int | None, **inputs: Any) -> Any:
    """What one of these functions returns for arrays that fit."""
    q, k, v, gate = (inputs[name].transpose(1, 2) for name in ("q", "k", "v", "gate"))
    fitting(q, k, v, gate)
    return function(g=inputs.pop("gate"), window_size=None if window_left is None else window_left + 1, **inputs)


@declared("forgetting_attention", **BLOCK, **DECLARED)
def fla_forgetting(
    q: Any, k: Any, v: Any, gate: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """parallel_forgetting_attn."""
    from fla.ops.forgetting_attn import parallel_forgetting_attn

    return called(parallel_forgetting_attn, window_left, q=q, k=k, v=v, gate=gate, scale=scale)


@declared("forgetting_attention_gradient", **BLOCK, **DECLARED)
def fla_forgetting_gradient(
    q: Any, k: Any, v: Any, gate: Any, d_out: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """The backward pass of parallel_forgetting_attn."""
    from fla.ops.forgetting_attn import parallel_forgetting_attn

    answering(q, v, d_out)

    def out(**inputs: Any) -> Any:
        return called(parallel_forgetting_attn, window_left, scale=scale, **inputs)

    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate)


def packed(window_left: int | None, scale: float | None, lens: Any, **inputs: Any) -> Any:
    """What the kernel returns for items one behind another."""
    from fla.ops.forgetting_attn import parallel_forgetting_attn

    q, k, v, gate = (inputs[name] for name in ("q", "k", "v", "gate"))
    packing(q, k, v, gate, lens)
    starts: Any = cumulative(lens).long()
    window = None if window_left is None else window_left + 1
    q, k, v, gate = (x[None] for x in (q, k, v, gate))
    return parallel_forgetting_attn(q, k, v, gate, scale=scale, window_size=window, cu_seqlens=starts)[0]


PACKED: dict[str, Any] = {**BLOCK, **DECLARED, "layout": "thd"}


@declared("packed_forgetting_attention", **PACKED)
def fla_packed_forgetting(
    q: Any, k: Any, v: Any, gate: Any, lens: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """parallel_forgetting_attn with the starts of items."""
    return packed(window_left, scale, lens, q=q, k=k, v=v, gate=gate)


@declared("packed_forgetting_attention_gradient", **PACKED)
def fla_packed_forgetting_gradient(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    lens: Any,
    d_out: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
) -> Any:
    """The backward pass of parallel_forgetting_attn with the starts of items."""
    answering(q, v, d_out)

    def out(**inputs: Any) -> Any:
        return packed(window_left, scale, lens, **inputs)

    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate)


@adapter("forgetting_attention", extra="fla", **BLOCK, **PLAIN)
def fla_naive_forgetting(
    q: Any, k: Any, v: Any, gate: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """naive_forgetting_attn, in single precision, which is what it returns."""
    function = naive("forgetting_attn").naive_forgetting_attn
    return called(function, window_left, q=q, k=k, v=v, gate=gate, scale=scale).to(q.dtype)
