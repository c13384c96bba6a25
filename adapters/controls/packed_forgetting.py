"""Right, but different: attention that forgets over packed items, by items and as a masked pack, and its gradients."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import positions
from .forgetting import (
    CONVENTIONS,
    DTYPES,
    answering,
    by_bias,
    control_forgetting_by_tiles,
    control_forgetting_gradient_by_tiles,
)


def packing(q: Any, k: Any, v: Any, gate: Any, lens: Any) -> None:
    """Refuse arrays that do not fit."""
    if gate.shape != q.shape[:2] or k.shape[:2] != v.shape[:2] or len(k) != len(q) or int(lens.sum()) != len(q):
        raise ValueError("every token of a query head has a gate, and a key and a value, and is of an item")


def apart(lens: Any, *arrays: Any) -> list[list[Any]]:
    """The arrays of each item that has tokens, [1, heads, length, ...]."""
    own = zip(*(x.split(lens.tolist()) for x in arrays), strict=True)
    return [[x.transpose(0, 1)[None] for x in item] for item in own if len(item[0])]


def together(parts: list[Any]) -> Any:
    """Arrays of items [1, heads, length, ...] one behind another."""
    import torch

    return torch.cat([x[0].transpose(0, 1) for x in parts])


@adapter("packed_forgetting_attention", dtypes=DTYPES, conventions=CONVENTIONS)
def control_packed_forgetting_by_items(
    q: Any, k: Any, v: Any, gate: Any, lens: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """Item by item, in tiles of 16 keys."""
    packing(q, k, v, gate, lens)
    how = {"scale": scale, "window_left": window_left}
    return together([control_forgetting_by_tiles(*item, **how) for item in apart(lens, q, k, v, gate)])


@adapter("packed_forgetting_attention", dtypes=DTYPES, conventions=CONVENTIONS)
def control_packed_forgetting_by_mask(
    q: Any, k: Any, v: Any, gate: Any, lens: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """All products of the pack at once, of which those between items are hidden."""
    import torch

    packing(q, k, v, gate, lens)
    item = torch.arange(len(lens)).repeat_interleave(lens)
    q, k, v, gate = (x.transpose(0, 1)[None] for x in (q, k, v, gate))
    seen = positions(q, k, True, window_left, None) & (item[:, None] == item)
    return by_bias(q, k, v, gate, seen, scale)[0].transpose(0, 1)


@adapter("packed_forgetting_attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS)
def control_packed_forgetting_gradient_by_items(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    lens: Any,
    d_out: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
) -> Any:
    """Item by item, in tiles of 16 keys."""
    packing(q, k, v, gate, lens)
    answering(q, v, d_out)
    how = {"scale": scale, "window_left": window_left}
    found = [control_forgetting_gradient_by_tiles(*item, **how) for item in apart(lens, q, k, v, gate, d_out)]
    return {name: together([item[name] for item in found]) for name in found[0]}


@adapter("packed_forgetting_attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS)
def control_packed_forgetting_gradient_by_differentiation(
    q: Any,
    k: Any,
    v: Any,
    gate: Any,
    lens: Any,
    d_out: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
) -> Any:
    """Automatic differentiation of the masked pack."""
    packing(q, k, v, gate, lens)
    answering(q, v, d_out)

    def out(**inputs: Any) -> Any:
        return control_packed_forgetting_by_mask(**inputs, lens=lens, scale=scale, window_left=window_left)

    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate)
