"""Retention of yet-another-retnet, in its three forms.

Source: https://github.com/fkodom/yet-another-retnet (yet_another_retnet/retention.py)
Factors are those of section 3.1 of the paper, in the dtype of the inputs, and a scale is divided by. Queries and keys
are rotated as its layer rotates them.
"""

from __future__ import annotations

import importlib
from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "float64"),
    "conventions": {"decays": "between", "scaled": "by_key"},
    "package": "yet_another_retnet",
    "extra": "retnet",
}


def library() -> Any:
    return importlib.import_module("yet_another_retnet.retention")


def rotated(q: Any, k: Any, base: float | None, offset: int) -> list[Any]:
    """Queries and keys, turned by the frequencies of a base where one is given."""
    import torch

    if base is None:
        return [q, k]
    if q.shape[3] % 2:
        raise ValueError("channels that are rotated come in pairs")
    thetas = library()._build_position_thetas(q.shape[3], scale=base, dtype=q.dtype)
    angles = (offset + torch.arange(q.shape[2], dtype=q.dtype))[:, None] * thetas
    return [library()._theta_shift(x, angles.sin(), angles.cos()) for x in (q, k)]


def divisor(scale: float | None) -> float | None:
    return None if scale is None else 1 / scale


@adapter("retention", **DECLARED)
def yet_another_parallel_retention(
    q: Any, k: Any, v: Any, *, scale: float | None = None, base: float | None = None, offset: int = 0
) -> Any:
    """retention_parallel of all tokens."""
    return library().retention_parallel(*rotated(q, k, base, offset), v, scale=divisor(scale))[0]


@adapter("retention", **DECLARED)
def yet_another_recurrent_retention(
    q: Any,
    k: Any,
    v: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    base: float | None = None,
    offset: int = 0,
) -> Any:
    """retention_recurrent of one token after the other."""
    import torch

    q, k = rotated(q, k, base, offset)
    outs = []
    for token in range(q.shape[2]):
        given = (x[:, :, token] for x in (q, k, v))
        out, state = library().retention_recurrent(*given, state, scale=divisor(scale))
        outs.append(out)
    return {"out": torch.stack(outs, 2), "final_state": state}


@adapter("retention", **DECLARED)
def yet_another_chunkwise_retention(
    q: Any,
    k: Any,
    v: Any,
    state: Any = None,
    *,
    scale: float | None = None,
    base: float | None = None,
    offset: int = 0,
) -> Any:
    """retention_chunkwise of chunks of three tokens."""
    import torch

    if v.shape[2] != k.shape[2]:
        raise ValueError("every key has a value")
    q, k = rotated(q, k, base, offset)
    outs = []
    for given in zip(*(x.split(3, 2) for x in (q, k, v)), strict=True):
        out, state = library().retention_chunkwise(*given, state, scale=divisor(scale))
        outs.append(out)
    return {"out": torch.cat(outs, 2), "final_state": state}
