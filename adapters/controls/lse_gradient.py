"""Right, but different: gradients of attention and of its logsumexp together, that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import positions
from .attention_gradient import CONVENTIONS, DTYPES, summed_to, ungrouped


@adapter("attention_gradient", dtypes=("float64", *DTYPES), conventions=CONVENTIONS)
def control_both_outputs_differentiated(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    d_lse: Any,
    bias: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Automatic differentiation of output and logsumexp, with the cotangents of both, in double precision."""
    import torch

    given = {"q": q, "k": k, "v": v} | ({} if bias is None else {"bias": bias})
    with torch.enable_grad():
        leaves = {name: x.detach().double().requires_grad_() for name, x in given.items()}
        keys, values = (leaves[name].repeat_interleave(q.shape[1] // k.shape[1], 1) for name in "kv")
        s = leaves["q"] @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
        s = s if softcap is None else softcap * torch.tanh(s / softcap)
        s = s + leaves.get("bias", 0.0)
        outputs = torch.softmax(s, -1) @ values, torch.logsumexp(s, -1)
        found = torch.autograd.grad(outputs, list(leaves.values()), (d_out.double(), d_lse.double()))
    return {f"d_{name}": x.to(q.dtype) for name, x in zip(leaves, found, strict=True)}


@adapter("attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS)
def control_delta_less_that_of_the_logsumexp(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    d_lse: Any,
    mask: Any = None,
    bias: Any = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """What is taken off is the average less the gradient of the logsumexp, and weights come from the logsumexp."""
    import torch

    factor, group = q.shape[3] ** -0.5 if scale is None else scale, q.shape[1] // k.shape[1]
    queries, g = q.float(), d_out.float()
    keys, values = (x.float().repeat_interleave(group, 1) for x in (k, v))
    reached = positions(q, k, causal, window_left, window_right)
    seen = (reached if mask is None else reached & mask).expand(*q.shape[:3], k.shape[2])
    s = queries @ keys.mT * factor
    capped = s if softcap is None else softcap * torch.tanh(s / softcap)
    biased = (capped if bias is None else capped + bias.float()).masked_fill(~seen, -torch.inf)
    lse = torch.logsumexp(biased, -1, keepdim=True)
    p = torch.exp(biased - lse).nan_to_num(0.0)
    delta = (g * (p @ values)).sum(-1) - d_lse
    ds = p * (g @ values.mT - delta[..., None])
    inner = ds if softcap is None else ds * (1 - (capped / softcap) ** 2)
    found = {
        "d_q": inner @ keys * factor,
        "d_k": ungrouped(inner.mT @ queries * factor, k.shape[1]),
        "d_v": ungrouped(p.mT @ g, k.shape[1]),
    }
    found = {name: x.to(q.dtype) for name, x in found.items()}
    return found if bias is None else {**found, "d_bias": summed_to(ds, bias)}
