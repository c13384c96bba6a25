"""Right, but different: selective scans token by token, in chunks, and by a scan over pairs; no law may accuse them."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def matching(x: Any, dt: Any, b: Any, state: Any) -> None:
    """Refuse steps and states of another size."""
    if dt.shape != x.shape or (state is not None and state.shape[2] != b.shape[1]):
        raise ValueError("every token has a step, and a state a column for each entry of b")


def shifted(dt: Any, dt_bias: Any) -> Any:
    """The steps with their bias, in single precision."""
    return dt.float() if dt_bias is None else dt.float() + dt_bias[:, None]


def stepped(dt: Any, dt_bias: Any, softplus: bool) -> Any:
    """The steps as they are taken."""
    import torch

    step = shifted(dt, dt_bias)
    return torch.nn.functional.softplus(step) if softplus else step


def prepared(x: Any, dt: Any, a: Any, b: Any, dt_bias: Any, state: Any, softplus: bool) -> tuple[Any, Any, Any]:
    """What fades and what is added, [batch, channels, length, state_dim], and the state, all in single precision."""
    import torch

    matching(x, dt, b, state)
    step = stepped(dt, dt_bias, softplus)
    added = (step * x.float())[..., None] * b.float().mT[:, None]
    state = torch.zeros(*x.shape[:2], b.shape[1]) if state is None else state
    return step[..., None] * a[:, None], added, state


def states_of(fading: Any, added: Any, state: Any) -> Any:
    """The states after each token, from one before the first."""
    import torch

    rows = []
    for t in range(added.shape[2]):
        state = fading[:, :, t].exp() * state + added[:, :, t]
        rows.append(state)
    return torch.stack(rows, 2)


def skipped(read: Any, x: Any, d: Any) -> Any:
    """What is read, with the term of d."""
    return read if d is None else read + d[:, None] * x.float()


def finished(read: Any, x: Any, d: Any, z: Any, dtype: Any) -> Any:
    """What is read, with the term of d, gated."""
    import torch

    out = skipped(read, x, d)
    return (out if z is None else out * torch.nn.functional.silu(z.float())).to(dtype)


@adapter("selective_scan", dtypes=DTYPES)
def control_scan_by_tokens(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """Token by token, as it stands in the paper."""
    import torch

    fading, added, state = prepared(x, dt, a, b, dt_bias, state, softplus)
    rows = []
    for t in range(x.shape[2]):
        state = fading[:, :, t].exp() * state + added[:, :, t]
        rows.append((state * c[:, None, :, t].float()).sum(-1))
    return {"out": finished(torch.stack(rows, 2), x, d, z, x.dtype), "final_state": state}


@adapter("selective_scan", dtypes=DTYPES)
def control_scan_by_pairs(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """The pairs of what fades and what is added, put together over twice the distance in each round."""
    import torch

    fading, added, state = prepared(x, dt, a, b, dt_bias, state, softplus)
    fades, distance = fading.exp(), 1
    sums = torch.cat((added[:, :, :1] + (fades[:, :, 0] * state)[:, :, None], added[:, :, 1:]), 2)
    while distance < x.shape[2]:
        reached = sums[:, :, distance:] + fades[:, :, distance:] * sums[:, :, :-distance]
        sums = torch.cat((sums[:, :, :distance], reached), 2)
        fades = torch.cat((fades[:, :, :distance], fades[:, :, distance:] * fades[:, :, :-distance]), 2)
        distance *= 2
    read = (sums * c.float().mT[:, None]).sum(-1)
    return {"out": finished(read, x, d, z, x.dtype), "final_state": sums[:, :, -1]}


@adapter("selective_scan", framework="numpy", dtypes=("float32",))
def control_scan_in_chunks(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """Chunks of eight tokens in double precision: what each adds to each later one, and the state between chunks."""
    import numpy as np

    matching(x, dt, b, state)
    step = dt.astype(np.float64) + (0 if dt_bias is None else dt_bias[:, None])
    step = np.logaddexp(step, 0) if softplus else step
    held = np.zeros((*x.shape[:2], b.shape[1])) if state is None else state.astype(np.float64)
    out = np.zeros(x.shape)
    for start in range(0, x.shape[2], 8):
        own = slice(start, start + 8)
        total = np.cumsum(step[..., own], -1)
        apart = total[..., :, None] - total[..., None, :]
        seen = np.tri(total.shape[-1], dtype=bool)
        fades = np.exp(np.where(seen, apart, 0)[..., None] * a[:, None, None]) * seen[..., None]
        added = (step * x)[..., own, None] * np.swapaxes(b, 1, 2)[:, None, own]
        states = np.einsum("bdtsn,bdsn->bdtn", fades, added) + np.exp(total[..., None] * a[:, None]) * held[:, :, None]
        out[..., own] = np.einsum("bdtn,bnt->bdt", states, c[..., own].astype(np.float64))
        held = states[:, :, -1]
    out = out if d is None else out + d[:, None] * x
    out = out if z is None else out * z / (1 + np.exp(-z.astype(np.float64)))
    return {"out": out.astype(np.float32), "final_state": held.astype(np.float32)}
