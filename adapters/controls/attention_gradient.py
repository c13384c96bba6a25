"""Right, but different: gradients of attention as kernels and automatic differentiation compute them.

`control_tiled_gradient` is algorithm 2 of FlashAttention-2 (arXiv:2307.08691), with the roundings of its kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import positions

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}
TILE = 16


def summed_to(x: Any, like: Any) -> Any:
    """The sum over the axes along which `like` was broadcast."""
    return x.sum_to_size(like.shape).to(like.dtype)


def ungrouped(x: Any, kv_heads: int) -> Any:
    """The sum over each group of heads: [batch, kv_heads, length, channels]."""
    return x.unflatten(1, (kv_heads, -1)).sum(2)


@adapter("attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS)
def control_tiled_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Tiles of 16 keys; weights from the logsumexp in float32, the output and both factors rounded to the dtype."""
    import torch

    def narrow(x: Any) -> Any:
        return x.to(q.dtype).float()

    group, kv_heads, k_len = q.shape[1] // k.shape[1], k.shape[1], k.shape[2]
    factor = q.shape[3] ** -0.5 if scale is None else scale
    queries, g = q.float(), d_out.float()
    keys, values = (x.float().repeat_interleave(group, 1) for x in (k, v))
    reached = positions(q, k, causal, window_left, window_right)
    seen = (reached if mask is None else reached & mask).expand(*q.shape[:3], k_len)

    def scores(part: slice) -> tuple[Any, Any]:
        """The scores of a tile, and the slope of the cap at each."""
        s = queries @ keys[:, :, part].mT * factor
        bent = torch.zeros_like(s) if softcap is None else torch.tanh(s / softcap)
        s = s if softcap is None else softcap * bent
        s = s if bias is None else s + bias.float().expand(seen.shape)[..., part]
        return s.masked_fill(~seen[..., part], -torch.inf), 1 - bent * bent

    tiles = [slice(start, min(start + TILE, k_len)) for start in range(0, k_len, TILE)]
    lse = torch.logsumexp(torch.cat([scores(part)[0] for part in tiles], -1), -1, keepdim=True)
    if sink is not None:
        lse = torch.logaddexp(lse, sink.float()[:, None, None])
    safe = lse.masked_fill(lse == -torch.inf, 0.0)
    weights = torch.cat([torch.exp(scores(part)[0] - safe) for part in tiles], -1)
    delta = (g * narrow(narrow(weights) @ values)).sum(-1, keepdim=True)

    d_q, d_keys, d_values, d_scores = torch.zeros_like(queries), [], [], []
    for part in tiles:
        s, slope = scores(part)
        p = torch.exp(s - safe)
        d_s = p * (g @ values[:, :, part].mT - delta)
        d_scores.append(d_s)
        d_s = narrow(d_s * slope)
        d_q += d_s @ keys[:, :, part]
        d_keys.append(narrow(d_s.mT @ queries * factor))
        d_values.append(narrow(narrow(p).mT @ g))
    found = {
        "d_q": d_q * factor,
        "d_k": ungrouped(torch.cat(d_keys, 2), kv_heads),
        "d_v": ungrouped(torch.cat(d_values, 2), kv_heads),
    }
    found = {name: x.to(q.dtype) for name, x in found.items()}
    if bias is not None:
        found["d_bias"] = summed_to(narrow(torch.cat(d_scores, -1)), bias)
    if sink is not None:
        found["d_sink"] = -(torch.exp(sink.float()[:, None, None] - safe) * delta).sum((0, 2, 3)).to(q.dtype)
    return found


def by_formula(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    mask: Any,
    bias: Any,
    causal: bool,
    scale: float | None,
    softcap: float | None,
) -> dict[str, Any]:
    """The gradients as the chain rule gives them, every result in the dtype of the inputs."""
    import torch

    group, kv_heads = q.shape[1] // k.shape[1], k.shape[1]
    factor = q.shape[3] ** -0.5 if scale is None else scale
    keys, values = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    reached = positions(q, k, causal, None, None)
    seen = reached if mask is None else reached & mask
    s = q @ keys.mT * factor
    bent = torch.zeros_like(s) if softcap is None else torch.tanh(s / softcap)
    s = s if softcap is None else bent * softcap
    s = s if bias is None else s + bias
    p = torch.softmax(s.masked_fill(~seen, -torch.inf), -1)
    p = p.masked_fill(~seen.any(-1, keepdim=True), 0.0)
    d_p = d_out @ values.mT
    d_biased = p * (d_p - (p * d_p).sum(-1, keepdim=True))
    d_s = d_biased * (1 - bent * bent)
    found = {
        "d_q": d_s @ keys * factor,
        "d_k": ungrouped(d_s.mT @ q * factor, kv_heads),
        "d_v": ungrouped(p.mT @ d_out, kv_heads),
    }
    return found if bias is None else found | {"d_bias": summed_to(d_biased, bias)}


@adapter(
    "attention_gradient",
    dtypes=("float64", *DTYPES),
    conventions=CONVENTIONS,
    grade={"float64": "fp64", "float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def control_gradient_by_formula(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """The chain rule, every intermediate in the dtype of the inputs."""
    return by_formula(q, k, v, d_out, mask, bias, causal, scale, softcap)


@adapter("attention_gradient", dtypes=("float32", "bfloat16"), conventions=CONVENTIONS)
def control_float64_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Everything in double precision, rounded once."""
    found = by_formula(
        q.double(),
        k.double(),
        v.double(),
        d_out.double(),
        mask,
        None if bias is None else bias.double(),
        causal,
        scale,
        softcap,
    )
    return {name: x.to(q.dtype) for name, x in found.items()}


@adapter(
    "attention_gradient",
    dtypes=("float64", *DTYPES),
    conventions=CONVENTIONS,
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def control_differentiated(
    q: Any, k: Any, v: Any, d_out: Any, *, mask: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """Automatic differentiation of torch's fused attention, which adds up over tiles of queries in the dtype itself."""
    import torch

    reached = positions(q, k, causal, None, None)
    seen = reached if mask is None else reached & mask
    grouped = q.shape[1] != k.shape[1]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, seen, scale=scale, enable_gqa=grouped)

    return differentiated(attend, d_out, q=q, k=k, v=v)


def control_of_hidden(word: str, hide: Callable[..., Any]) -> None:
    """Declare automatic differentiation of elementary operations, in which scores are hidden in a given way."""

    def function(q: Any, k: Any, v: Any, d_out: Any, *, mask: Any = None, causal: bool = False) -> Any:
        group = q.shape[1] // k.shape[1]
        reached = positions(q, k, causal, None, None)
        seen = reached if mask is None else reached & mask

        def attend(q: Any, k: Any, v: Any) -> Any:
            keys, values = k.float().repeat_interleave(group, 1), v.float().repeat_interleave(group, 1)
            return (hide(q.float() @ keys.mT * q.shape[3] ** -0.5, seen).softmax(-1) @ values).to(q.dtype)

        return differentiated(attend, d_out, q=q, k=k, v=v)

    adapter("attention_gradient", name=f"control_{word}", conventions=CONVENTIONS | {"empty_row": word})(function)


def lowest(s: Any) -> float:
    import torch

    return torch.finfo(s.dtype).min


control_of_hidden("mean_value", lambda s, seen: s.masked_fill(~seen, lowest(s)))
control_of_hidden("mean_score", lambda s, seen: s + (~seen) * lowest(s))
control_of_hidden("nan_values", lambda s, seen: s.masked_fill(~seen, float("-inf")))
control_of_hidden("nans", lambda s, seen: s + s.new_zeros(seen.shape).masked_fill(~seen, float("-inf")))
