"""Right, but different: the delta rule with a gate for each channel, and its gradients, by tokens and at once."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .delta_rule import DTYPES, prepared


@adapter("kimi_delta_attention", dtypes=DTYPES)
def control_kimi_delta_by_tokens(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    beta: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """Token by token, with the matrix of each step as it stands in the paper."""
    import torch

    dtype, scale = v.dtype, k.shape[3] ** -0.5 if scale is None else scale
    q, k, v, beta, gate, state = prepared(q, k, v, beta, gate, state, normalise)
    rows = []
    for t in range(k.shape[2]):
        share, key = beta[:, :, t, None, None], k[:, :, t, :, None]
        faded = gate[:, :, t, :, None].exp() * state
        state = (torch.eye(k.shape[3]) - share * key * key.mT) @ faded + share * key * v[:, :, t, None, :]
        rows.append((scale * q[:, :, t, None, :] @ state)[:, :, 0])
    out = torch.stack(rows, 2) if rows else torch.zeros_like(v)
    return {"out": out.to(dtype), "final_state": state}


@adapter("kimi_delta_attention", dtypes=DTYPES)
def control_kimi_delta_at_once(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    beta: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """All tokens as one chunk: the values that are written solve a triangular system."""
    import torch

    dtype, scale = v.dtype, k.shape[3] ** -0.5 if scale is None else scale
    q, k, v, beta, gate, state = prepared(q, k, v, beta, gate, state, normalise)
    total = gate.cumsum(2)
    fades = (total[:, :, :, None] - total[:, :, None]).clamp(max=0).exp()  # [batch, heads, length, length, key_dim]
    overlaps, weights = ((x[:, :, :, None] * fades * k[:, :, None]).sum(-1) for x in (k, q))
    system = torch.eye(k.shape[2]) + beta[..., None] * overlaps.tril(-1)
    wanted = beta[..., None] * (v - (k * total.exp()) @ state)
    written = torch.linalg.solve_triangular(system, wanted, upper=False)
    out = scale * (weights.tril() @ written + (q * total.exp()) @ state)
    left = total[:, :, -1, :, None].exp() * state + (k * (total[:, :, -1:] - total).exp()).mT @ written
    return {"out": out.to(dtype), "final_state": left}


@adapter("kimi_delta_attention_gradient", dtypes=DTYPES)
def control_kimi_delta_back_by_tokens(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    beta: Any,
    d_out: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> dict[str, Any]:
    """Back through every token, one by one."""
    out = partial(control_kimi_delta_by_tokens, scale=scale, normalise=normalise)
    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate, beta=beta, state=state)


@adapter("kimi_delta_attention_gradient", dtypes=DTYPES)
def control_kimi_delta_back_at_once(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    beta: Any,
    d_out: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> dict[str, Any]:
    """Back through a triangular system of all tokens, the gates in sums from the first on."""
    out = partial(control_kimi_delta_at_once, scale=scale, normalise=normalise)
    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate, beta=beta, state=state)
