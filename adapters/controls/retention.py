"""Right, but different: retention token by token, in chunks and at once, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def prepared(q: Any, k: Any, v: Any, state: Any, scale: float | None, base: float | None, offset: int) -> Any:
    """Queries and keys in double precision, scaled and rotated as complex numbers, and the state."""
    import torch

    if v.shape[2] != k.shape[2]:
        raise ValueError("every key has a value")
    q, k = q.double() * (q.shape[3] ** -0.5 if scale is None else scale), k.double()
    if base is not None:
        if q.shape[3] % 2:
            raise ValueError("channels that are rotated come in pairs")
        theta = base ** -torch.linspace(0, 1, q.shape[3] // 2, dtype=torch.float64)
        angle = (offset + torch.arange(q.shape[2]))[:, None] * theta
        turn = torch.polar(torch.ones_like(angle), angle)
        pairs = (torch.view_as_complex(x.unflatten(3, (-1, 2)).contiguous()) * turn for x in (q, k))
        q, k = (torch.view_as_real(x).flatten(3) for x in pairs)
    start = torch.zeros(*q.shape[:2], q.shape[3], v.shape[3], dtype=torch.float64)
    return q, k, v.double(), start if state is None else start + state


def logarithms(heads: int) -> Any:
    """The logarithms of the factors by powers of two: [heads, 1, 1]."""
    import torch

    return torch.log1p(-(2.0 ** -(5 + torch.arange(heads, dtype=torch.float64))))[:, None, None]


@adapter("retention", dtypes=DTYPES, conventions={"decays": "powers", "scaled": "by_query"})
def control_retention_in_chunks(
    q: Any,
    k: Any,
    v: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    base: float | None = None,
    offset: int = 0,
) -> Any:
    """Chunks of seven tokens: products within a chunk, and the state of those before it."""
    import torch

    queries, keys, values, s = prepared(q, k, v, state, scale, base, offset)
    log = logarithms(q.shape[1])
    outs = [values[:, :, :0]]
    for a, b, c in zip(*(x.split(7, 2) for x in (queries, keys, values)), strict=True):
        place = torch.arange(a.shape[2])
        age = place[:, None] - place
        inner = torch.where(age >= 0, torch.exp(log * age.clamp_min(0)), 0.0)
        outs.append((a @ b.mT * inner) @ c + torch.exp(log * (place + 1)[:, None]) * (a @ s))
        left = torch.exp(log * (len(place) - 1 - place)[:, None])
        s = torch.exp(log * len(place)) * s + (b * left).mT @ c
    return {"out": torch.cat(outs, 2).to(q.dtype), "final_state": s.float()}


@adapter("retention", dtypes=DTYPES, conventions={"decays": "between", "scaled": "by_key"})
def control_retention_step_by_step(
    q: Any,
    k: Any,
    v: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    base: float | None = None,
    offset: int = 0,
) -> Any:
    """Token by token, with scaled keys and factors between 31/32 and 511/512."""
    import torch

    keys, queries, values, s = prepared(k, q, v, state, scale, base, offset)
    lost = torch.logspace(-5, -9, q.shape[1], 2, dtype=torch.float64)
    outs = [values[:, :, :0]]
    for token in range(q.shape[2]):
        s = s - lost[:, None, None] * s + keys[:, :, token, :, None] * values[:, :, token, None]
        outs.append(queries[:, :, token, None] @ s)
    return {"out": torch.cat(outs, 2).to(q.dtype), "final_state": s.float()}
