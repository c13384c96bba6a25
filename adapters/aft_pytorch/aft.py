"""The package aft-pytorch.

Source: https://github.com/rish-16/aft-pytorch (AFTFull, AFTLocal, AFTSimple).
Its layers project one input to queries, keys and values. Here the input holds all three side by side, and the maps pick
one of them each, so that nothing is computed beside what is under test.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")
NAIVE = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"}


def called(kind: str, q: Any, k: Any, v: Any, w: Any = None, **options: Any) -> Any:
    """One call of a layer, with these biases."""
    import aft_pytorch
    import torch

    _, length, dim = q.shape
    made = new_layer(getattr(aft_pytorch, kind), length, 3 * dim, hidden_dim=dim, **options).to(q.device, q.dtype)
    picks = torch.eye(3 * dim, dtype=q.dtype, device=q.device)
    with torch.no_grad():
        for projection, part in zip((made.to_q, made.to_k, made.to_v), picks.chunk(3), strict=True):
            projection.weight.copy_(part)
            projection.bias.zero_()
        made.project.weight.copy_(picks[:, :dim])
        made.project.bias.zero_()
        if w is not None:
            made.wbias.copy_(w)
        return made.eval()(torch.cat([q, k, v], -1))[..., :dim].contiguous()


@adapter("aft_full", dtypes=DTYPES, grade=NAIVE, package="aft_pytorch", extra="aft")
def aft_pytorch_full(q: Any, k: Any, v: Any, w: Any) -> Any:
    """AFTFull with maps that pick."""
    return called("AFTFull", q, k, v, w)


@adapter(
    "aft_local",
    dtypes=("float32",),
    conventions={"outside_window": "zero_bias"},
    package="aft_pytorch",
    extra="aft",
    limits={"length": range(129)},
)
def aft_pytorch_local(q: Any, k: Any, v: Any, w: Any, *, window: int) -> Any:
    """AFTLocal with maps that pick; it makes its biases anew, in float32 and one by one, in every call."""
    return called("AFTLocal", q, k, v, w, s=window)


@adapter("aft_simple", dtypes=DTYPES, grade=NAIVE, package="aft_pytorch", extra="aft")
def aft_pytorch_simple(q: Any, k: Any, v: Any) -> Any:
    """AFTSimple with maps that pick."""
    return called("AFTSimple", q, k, v)
