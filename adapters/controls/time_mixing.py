"""Right, but different: the time mixing of RWKV token by token, all tokens at once, and in chunks."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


@adapter("wkv4", dtypes=DTYPES)
def control_wkv4_running(w: Any, u: Any, k: Any, v: Any, past: Any = None, lse: Any = None) -> Any:
    """Token by token, with sums and a running maximum, as kernels do it."""
    import torch

    fitting(w, k, v)
    dtype, (k, v), rate = v.dtype, (x.float() for x in (k, v)), w.exp()
    total = torch.zeros(len(k), k.shape[2]) if past is None else past
    weight = torch.zeros(len(k), k.shape[2]) if past is None else torch.ones_like(past)
    top = torch.full((len(k), k.shape[2]), -1e38) if lse is None else lse
    rows = []
    for key, value in zip(k.unbind(1), v.unbind(1), strict=True):
        highest = torch.maximum(top, u + key)
        then, now = (top - highest).exp(), (u + key - highest).exp()
        rows.append((then * total + now * value) / (then * weight + now))
        highest = torch.maximum(top - rate, key)
        then, now = (top - rate - highest).exp(), (key - highest).exp()
        total, weight, top = then * total + now * value, then * weight + now, highest
    return {"out": torch.stack(rows, 1).to(dtype), "final_past": total / weight, "final_lse": top + weight.log()}


@adapter("wkv4", dtypes=DTYPES)
def control_wkv4_at_once(w: Any, u: Any, k: Any, v: Any, past: Any = None, lse: Any = None) -> Any:
    """All tokens at once: a softmax over the tokens for each channel, in which the state counts like one token."""
    import torch

    fitting(w, k, v)
    dtype, (k, v), length = v.dtype, (x.float() for x in (k, v)), k.shape[1]
    since = torch.arange(length + 1)[:, None] - 1 - torch.arange(length)  # [length + 1, length]
    exponents = (k[:, None] - since[:, :, None] * w.exp()).masked_fill(since[:, :, None] < 0, -torch.inf)
    exponents[:, range(length), range(length)] = u + k
    if past is not None:
        fallen = lse[:, None] - torch.arange(length + 1)[:, None] * w.exp()
        exponents, v = torch.cat((fallen[:, :, None], exponents), 2), torch.cat((past[:, None], v), 1)
    averages = (exponents.softmax(2) * v[:, None]).sum(2)
    return {
        "out": averages[:, :-1].to(dtype),
        "final_past": averages[:, -1],
        "final_lse": exponents[:, -1].logsumexp(1),
    }


def fitting(w: Any, k: Any, v: Any) -> None:
    """Refuse what does not belong together."""
    if k.shape != v.shape or w.shape != k.shape[2:]:
        raise ValueError("every key has a value, and every channel a rate")


def started(k: Any, v: Any, state: Any) -> Any:
    """The states in single precision that heads begin with."""
    import torch

    if v.shape[2] != k.shape[2] or (state is not None and state.shape[2] != k.shape[3]):
        raise ValueError("every key has a value, and a state a row for each channel of the keys")
    return torch.zeros(*v.shape[:2], k.shape[3], v.shape[3]) if state is None else state.clone()


@adapter("wkv6", dtypes=DTYPES)
def control_wkv6_by_tokens(
    r: Any, k: Any, v: Any, w: Any, u: Any, state: Any = None, *, scale: float | None = 1.0
) -> Any:
    """Token by token."""
    import torch

    dtype, scale, state = v.dtype, k.shape[3] ** -0.5 if scale is None else scale, started(k, v, state)
    r, k, v, w, u = (x.float() for x in (r, k, v, w, u))
    rows = []
    for t in range(k.shape[2]):
        product = k[:, :, t, :, None] * v[:, :, t, None, :]
        rows.append((scale * r[:, :, t, None, :] @ (state + u[..., None] * product))[:, :, 0])
        state = w[:, :, t, :, None].exp() * state + product
    return {"out": torch.stack(rows, 2).to(dtype), "final_state": state}


@adapter("wkv6", dtypes=DTYPES)
def control_wkv6_at_once(
    r: Any, k: Any, v: Any, w: Any, u: Any, state: Any = None, *, scale: float | None = 1.0
) -> Any:
    """All tokens at once: products of receptances and keys, faded by the gates that lie between."""
    import torch

    dtype, scale, state = v.dtype, k.shape[3] ** -0.5 if scale is None else scale, started(k, v, state)
    r, k, v, w, u = (x.float() for x in (r, k, v, w, u))
    through = w.cumsum(2)
    until = torch.nn.functional.pad(through[:, :, :-1], (0, 0, 1, 0))  # before the gate of the token itself
    fades = (until[:, :, :, None] - through[:, :, None]).clamp(max=0).exp()
    scores = torch.einsum("bhtd,bhtsd,bhsd->bhts", scale * r, fades, k).tril(-1)
    own = (scale * r * u[:, None] * k).sum(-1, keepdim=True)
    out = scores @ v + own * v + (scale * r * until.exp()) @ state
    left = through[:, :, -1, :, None].exp() * state + (k * (through[:, :, -1:] - through).exp()).mT @ v
    return {"out": out.to(dtype), "final_state": left}


@adapter("wkv7", dtypes=DTYPES)
def control_wkv7_by_tokens(
    r: Any, w: Any, k: Any, v: Any, a: Any, b: Any, state: Any = None, *, scale: float | None = 1.0
) -> Any:
    """Token by token, with the matrix of each step as it stands in the paper."""
    import torch

    dtype, scale, state = v.dtype, k.shape[3] ** -0.5 if scale is None else scale, started(k, v, state)
    r, w, k, v, a, b = (x.float() for x in (r, w, k, v, a, b))
    rows = []
    for t in range(k.shape[2]):
        step = w[:, :, t].exp().diag_embed() + b[:, :, t, :, None] * a[:, :, t, None, :]
        state = step @ state + k[:, :, t, :, None] * v[:, :, t, None, :]
        rows.append((scale * r[:, :, t, None, :] @ state)[:, :, 0])
    return {"out": torch.stack(rows, 2).to(dtype), "final_state": state}


@adapter("wkv7", dtypes=DTYPES)
def control_wkv7_at_once(
    r: Any, w: Any, k: Any, v: Any, a: Any, b: Any, state: Any = None, *, scale: float | None = 1.0
) -> Any:
    """All tokens as one chunk: what is found for each a solves a triangular system."""
    import torch

    dtype, scale, state = v.dtype, k.shape[3] ** -0.5 if scale is None else scale, started(k, v, state)
    r, w, k, v, a, b = (x.float() for x in (r, w, k, v, a, b))
    through = w.cumsum(2)
    until = torch.nn.functional.pad(through[:, :, :-1], (0, 0, 1, 0))
    since = (until[:, :, :, None] - through[:, :, None]).clamp(max=0).exp()  # from after a token to before another
    within = (through[:, :, :, None] - through[:, :, None]).clamp(max=0).exp()  # to after the other
    system = torch.eye(k.shape[2]) - torch.einsum("bhtd,bhtsd,bhsd->bhts", a, since, b).tril(-1)
    seen = torch.einsum("bhtd,bhtsd,bhsd->bhts", a, since, k).tril(-1) @ v + (a * until.exp()) @ state
    found = torch.linalg.solve_triangular(system, seen, upper=False)
    by_key, by_b = (torch.einsum("bhtd,bhtsd,bhsd->bhts", scale * r, within, x).tril() for x in (k, b))
    out = by_key @ v + by_b @ found + (scale * r * through.exp()) @ state
    late = (through[:, :, -1:] - through).exp()
    left = through[:, :, -1, :, None].exp() * state + (k * late).mT @ v + (b * late).mT @ found
    return {"out": out.to(dtype), "final_state": left}
