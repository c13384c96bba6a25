"""Right, but different: gradients of attention to keys of given numbers, none of which a law may accuse.

`control_gathered_backward` is a backward pass query by query, which adds to the keys that a list names; the others
differentiate functions that pass as attention to keys of given numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import DTYPES
from .gathered import control_lists_as_mask, control_lists_clamped, fitting, queries

WORDS = {"repeats": "counted", "beyond": "nothing", "empty_row": "zeros", "grouping": "block"}


def _declared(**words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter("gathered_attention_gradient", dtypes=DTYPES, conventions=WORDS | words)


@_declared()
def control_gathered_backward(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    d_out: Any,
    *,
    sink: Any = None,
    block_size: int = 1,
    scale: float | None = None,
    causal: bool = False,
) -> Any:
    """Query by query; weights from the logsumexp, both factors rounded, and sums over the queries in float32."""
    import torch

    fitting(q, k, v, selected)
    if d_out.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError("every output has a gradient")

    def narrow(x: Any) -> Any:
        return x.to(q.dtype).float()

    (batch, heads), (kv_heads, k_len) = q.shape[:2], k.shape[1:3]
    group, factor = heads // kv_heads, q.shape[3] ** -0.5 if scale is None else scale
    d_q, d_sink = torch.zeros(q.shape), torch.zeros(heads)
    d_k, d_v = (torch.zeros(batch, heads, k_len, x.shape[3]) for x in (k, v))
    for (item, head, row), kv_head, found in queries(q, k, selected, block_size, causal):
        if not len(found):
            continue
        query, g = q[item, head, row].float(), d_out[item, head, row].float()
        keys, values = (x[item, kv_head, found].float() for x in (k, v))
        s = keys @ query * factor
        lse = s.logsumexp(0) if sink is None else torch.cat([s, sink[head : head + 1].float()]).logsumexp(0)
        p = torch.exp(s - lse)
        delta = g @ narrow(p @ values)
        d_s = narrow(p * (values @ g - delta))
        d_q[item, head, row] = d_s @ keys * factor
        d_k[item, head].index_add_(0, found, torch.outer(d_s, query) * factor)
        d_v[item, head].index_add_(0, found, torch.outer(narrow(p), g))
        if sink is not None:
            d_sink[head] -= torch.exp(sink[head].float() - lse) * delta
    shared = (narrow(x).unflatten(1, (kv_heads, group)).sum(2) for x in (d_k, d_v))
    gradients = {name: x.to(q.dtype) for name, x in zip(("d_q", "d_k", "d_v"), (d_q, *shared), strict=True)}
    return gradients if sink is None else gradients | {"d_sink": d_sink.to(q.dtype)}


@_declared()
def control_differentiated_lists(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    d_out: Any,
    *,
    sink: Any = None,
    block_size: int = 1,
    scale: float | None = None,
    causal: bool = False,
) -> Any:
    """Automatic differentiation in double precision of keys that are gathered from all lists at once."""
    more = {"block_size": block_size, "scale": scale, "causal": causal}
    attend = partial(control_lists_clamped, selected=selected, **more)
    return differentiated(attend, d_out, q=q, k=k, v=v, sink=sink)


@_declared(empty_row="nans", grouping="tiled", repeats="once")
def control_differentiated_mask_of_lists(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    d_out: Any,
    *,
    block_size: int = 1,
    scale: float | None = None,
    causal: bool = False,
) -> Any:
    """Automatic differentiation of a plain softmax under a dense mask."""
    more = {"block_size": block_size, "scale": scale, "causal": causal}
    attend = partial(control_lists_as_mask, selected=selected, **more)
    return differentiated(attend, d_out, q=q, k=k, v=v)
