"""Right, but different: states that go from token to token as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def unit(x: Any, asked: bool) -> Any:
    """Rows of unit length in single precision, if it is asked for."""
    x = x.float()
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() if asked else x


def prepared(q: Any, k: Any, v: Any, beta: Any, gate: Any, state: Any, normalise: bool) -> tuple[Any, ...]:
    """Everything in single precision and with a head of keys for each of values; the gate and state that are absent."""
    import torch

    if v.shape[2] != k.shape[2] or (state is not None and state.shape[2] != k.shape[3]):
        raise ValueError("every key has a value, and a state a row for each channel of the keys")
    group = v.shape[1] // k.shape[1]
    q, k = (unit(x, normalise).repeat_interleave(group, 1) for x in (q, k))
    gate = torch.zeros(beta.shape) if gate is None else gate.float()
    state = torch.zeros(*v.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    return q, k, v.float(), beta.float(), gate, state


@adapter("gated_delta_rule", dtypes=DTYPES)
def control_delta_rule_by_tokens(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    gate: Any = None,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """Token by token, with the matrix of each step as it stands in the paper."""
    import torch

    dtype, scale = v.dtype, k.shape[3] ** -0.5 if scale is None else scale
    q, k, v, beta, gate, state = prepared(q, k, v, beta, gate, state, normalise)
    state, rows = state.clone(), []
    for t in range(k.shape[2]):
        kept = torch.eye(k.shape[3]) - beta[:, :, t, None, None] * k[:, :, t, :, None] * k[:, :, t, None, :]
        written = beta[:, :, t, None, None] * k[:, :, t, :, None] * v[:, :, t, None, :]
        state = gate[:, :, t, None, None].exp() * (kept @ state) + written
        rows.append((scale * q[:, :, t, None, :] @ state)[:, :, 0])
    out = torch.stack(rows, 2) if rows else torch.zeros_like(v)
    return {"out": out.to(dtype), "final_state": state}


@adapter("gated_delta_rule", dtypes=DTYPES)
def control_delta_rule_at_once(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    gate: Any = None,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """All tokens as one chunk: the values that are written solve a triangular system."""
    import torch

    dtype, scale = v.dtype, k.shape[3] ** -0.5 if scale is None else scale
    q, k, v, beta, gate, state = prepared(q, k, v, beta, gate, state, normalise)
    total = gate.cumsum(-1)
    fades = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
    system = torch.eye(k.shape[2]) + beta[..., None] * (k @ k.mT * fades).tril(-1)
    wanted = beta[..., None] * (v - total[..., None].exp() * (k @ state))
    written = torch.linalg.solve_triangular(system, wanted, upper=False)
    out = scale * ((q @ k.mT * fades) @ written + total[..., None].exp() * (q @ state))
    left = total[..., -1:, None].exp() * state + (k * (total[..., -1:] - total)[..., None].exp()).mT @ written
    return {"out": out.to(dtype), "final_state": left}


def together(v: Any, k: Any, lens: Any, state: Any) -> None:
    """Refuse items that do not belong together."""
    if len(v) != len(k) or int(lens.sum()) != len(k) or (state is not None and len(state) != len(lens)):
        raise ValueError("every key has a value, and every item a state")


@adapter("packed_delta_rule", dtypes=DTYPES)
def control_delta_rule_item_by_item(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    lens: Any,
    gate: Any = None,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """Each item by itself, as one chunk."""
    import torch

    together(v, k, lens, state)
    left = torch.zeros(len(lens), v.shape[1], k.shape[2], v.shape[2]) if state is None else state.clone()
    out, end = torch.empty_like(v), 0
    for item, length in enumerate(lens.tolist()):
        start, end = end, end + length
        if length:
            arrays = (q, k, v, beta) if gate is None else (q, k, v, beta, gate)
            arrays = [x[start:end].transpose(0, 1)[None] for x in arrays]
            own = arrays[4] if gate is not None else None
            found = control_delta_rule_at_once(
                *arrays[:4], own, left[item : item + 1], scale=scale, normalise=normalise
            )
            out[start:end], left[item] = found["out"][0].transpose(0, 1), found["final_state"][0]
    return {"out": out, "final_state": left}


@adapter("packed_delta_rule", dtypes=DTYPES)
def control_delta_rule_along_the_pack(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    lens: Any,
    gate: Any = None,
    state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """Token by token through the pack, the state exchanged where an item begins."""
    import torch

    together(v, k, lens, state)
    dtype, scale = v.dtype, k.shape[2] ** -0.5 if scale is None else scale
    group = v.shape[1] // k.shape[1]
    q, k = (unit(x, normalise).repeat_interleave(group, 1) for x in (q, k))
    left = torch.zeros(len(lens), v.shape[1], k.shape[2], v.shape[2]) if state is None else state.clone()
    item = torch.arange(len(lens)).repeat_interleave(lens)
    out = torch.empty(v.shape)
    for t, own in enumerate(item.tolist()):
        held = left[own] if gate is None else left[own] * gate[t].float()[:, None, None].exp()
        written = beta[t].float()[:, None] * (v[t].float() - (k[t][:, None] @ held)[:, 0])
        left[own] = held + k[t][..., None] * written[:, None]
        out[t] = scale * (q[t][:, None] @ left[own])[:, 0]
    return {"out": out.to(dtype), "final_state": left}
