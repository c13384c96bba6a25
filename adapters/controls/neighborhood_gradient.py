"""Right, but different: gradients of neighborhood attention, in ways none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import DTYPES
from .neighborhood import control_neighborhood_by_masks, fitting, seen_along


@adapter("neighborhood_attention_gradient", dtypes=DTYPES)
def control_neighborhood_differentiated(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    kernel_height: int,
    kernel_width: int,
    dilation_height: int = 1,
    dilation_width: int = 1,
    stride_height: int = 1,
    stride_width: int = 1,
    causal_height: bool = False,
    causal_width: bool = False,
    scale: float | None = None,
) -> dict[str, Any]:
    """Differentiated by torch, all pixels at once under masks, in single precision."""
    options: dict[str, Any] = {
        "kernel_height": kernel_height,
        "kernel_width": kernel_width,
        "dilation_height": dilation_height,
        "dilation_width": dilation_width,
        "stride_height": stride_height,
        "stride_width": stride_width,
        "causal_height": causal_height,
        "causal_width": causal_width,
        "scale": scale,
    }

    def attended(q: Any, k: Any, v: Any) -> Any:
        return control_neighborhood_by_masks(q, k, v, **options)["out"]

    found = differentiated(attended, d_out.float(), q=q.float(), k=k.float(), v=v.float())
    return {name: x.to(q.dtype) for name, x in found.items()}


@adapter("neighborhood_attention_gradient", dtypes=DTYPES)
def control_neighborhood_back_by_windows(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    kernel_height: int,
    kernel_width: int,
    dilation_height: int = 1,
    dilation_width: int = 1,
    stride_height: int = 1,
    stride_width: int = 1,
    causal_height: bool = False,
    causal_width: bool = False,
    scale: float | None = None,
) -> dict[str, Any]:
    """Query by query, which adds to the pixels of its window, in double precision."""
    import torch

    fitting(q, k, v)
    height, width = q.shape[1:3]
    down = seen_along(height, kernel_height, dilation_height, stride_height, causal_height)
    across = seen_along(width, kernel_width, dilation_width, stride_width, causal_width)
    seen = torch.kron(down, across)
    factor = q.shape[4] ** -0.5 if scale is None else scale
    kv_heads = k.shape[3]
    queries, keys, values, given = (x.double().flatten(1, 2).unflatten(2, (kv_heads, -1)) for x in (q, k, v, d_out))
    d_q, d_k, d_v = (torch.zeros_like(x) for x in (queries, keys, values))
    for i in range(height * width):
        own = seen[i].nonzero()[:, 0]
        near, worth = keys[:, own, :, 0], values[:, own, :, 0]
        weights = (factor * torch.einsum("bghd,bjgd->bghj", queries[:, i], near)).softmax(-1)
        gain = torch.einsum("bghe,bjge->bghj", given[:, i], worth)
        slopes = weights * (gain - (weights * gain).sum(-1, keepdim=True)) * factor
        d_q[:, i] = torch.einsum("bghj,bjgd->bghd", slopes, near)
        d_k[:, own, :, 0] += torch.einsum("bghj,bghd->bjgd", slopes, queries[:, i])
        d_v[:, own, :, 0] += torch.einsum("bghj,bghe->bjge", weights, given[:, i])
    found = {"d_q": (d_q, q), "d_k": (d_k, k), "d_v": (d_v, v)}
    return {name: x.reshape(like.shape).to(q.dtype) for name, (x, like) in found.items()}
