"""Right, but different: gradients of packed attention as kernels and automatic differentiation compute them.

`control_items_backward` is algorithm 2 of FlashAttention-2 (arXiv:2307.08691) for each item, with the roundings of its
kernels; the others differentiate functions that pass as packed attention.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from ..torch.packed import cumulative
from .packed import batched, control_block_diagonal, control_items, control_padded, control_segments, places

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {
    "causal_alignment": "bottom_right",
    "empty_row": "zeros",
    "grouping": "block",
    "padded_gradients": "zeroed",
}
TILE = 16


def _declared(**words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter("packed_attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS | words)


def gradients_of(
    attend: Callable[..., Any],
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    sink: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """The gradients of a function of packed attention, by automatic differentiation."""
    inputs = {"q": q, "k": k, "v": v} | ({} if sink is None else {"sink": sink})
    return differentiated(partial(attend, q_lens=q_lens, k_lens=k_lens, **options), d_out, **inputs)


@_declared()
def control_items_backward(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
    sink: Any = None,
    q_slots: Any = None,
    k_slots: Any = None,
) -> Any:
    """Item by item in tiles of 16 keys; weights from the logsumexp, and both factors rounded to the dtype."""
    import torch

    if len(d_out) != len(q) or d_out.shape[2] != v.shape[2]:
        raise ValueError("every output has a gradient")

    def narrow(x: Any) -> Any:
        return x.to(q.dtype).float()

    group, kv_heads = q.shape[1] // k.shape[1], k.shape[1]
    factor = q.shape[2] ** -0.5 if scale is None else scale
    found, d_sink = [torch.zeros_like(x) for x in (q, k, v)], torch.zeros(q.shape[1])
    q_at, k_at = (cumulative(x).tolist() for x in (places(q_lens, q_slots), places(k_lens, k_slots)))
    for item, lens in enumerate(zip(q_lens.tolist(), k_lens.tolist(), strict=True)):
        own, past = (slice(at[item], at[item] + n) for at, n in zip((q_at, k_at), lens, strict=True))
        queries, g = (batched(x[own]).float() for x in (q, d_out))
        keys, values = (batched(x[past]).float().repeat_interleave(group, 1) for x in (k, v))
        n, m = queries.shape[2], keys.shape[2]
        back = torch.arange(n)[:, None] + (m - n) - torch.arange(m)
        seen = (back >= 0) | (not causal)
        seen &= torch.tensor(True) if window_left is None else back <= window_left
        seen &= torch.tensor(True) if window_right is None else back >= -window_right
        s = queries @ keys.mT * factor
        bent = torch.zeros_like(s) if softcap is None else torch.tanh(s / softcap)
        s = (s if softcap is None else softcap * bent).masked_fill(~seen, -torch.inf)
        lse = torch.logsumexp(s, -1, keepdim=True)
        lse = lse if sink is None else torch.logaddexp(lse, sink.float()[:, None, None])
        safe = lse.masked_fill(lse == -torch.inf, 0.0)
        p = torch.exp(s - safe)
        delta = (g * narrow(narrow(p) @ values)).sum(-1, keepdim=True)
        if sink is not None:
            d_sink -= (torch.exp(sink.float()[:, None, None] - safe) * delta).sum((0, 2, 3))
        d_q = torch.zeros_like(queries)
        for start in range(0, m, TILE):
            tile = slice(start, min(start + TILE, m))
            d_s = p[..., tile] * (g @ values[:, :, tile].mT - delta) * (1 - bent[..., tile].square())
            d_q += narrow(d_s) @ keys[:, :, tile] * factor
            for into, x in (
                (found[1], narrow(d_s).mT @ queries * factor),
                (found[2], narrow(p[..., tile]).mT @ g),
            ):
                total = narrow(x).unflatten(1, (kv_heads, group)).sum(2)[0].transpose(0, 1)
                into[past.start + tile.start : past.start + tile.stop] = total.to(q.dtype)
        found[0][own] = d_q[0].transpose(0, 1).to(q.dtype)
    gradients = dict(zip(("d_q", "d_k", "d_v"), found, strict=True))
    return gradients if sink is None else gradients | {"d_sink": d_sink.to(q.dtype)}


@_declared()
def control_differentiated_items(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
    sink: Any = None,
    q_slots: Any = None,
    k_slots: Any = None,
) -> Any:
    """Automatic differentiation of an online softmax for each item."""
    if not int(q_lens.sum()) * int(k_lens.sum()):  # nothing to differentiate
        inputs = {"q": q, "k": k, "v": v} | ({} if sink is None else {"sink": sink})
        return {f"d_{name}": x.new_zeros(x.shape) for name, x in inputs.items()}
    windows = {"window_left": window_left, "window_right": window_right}
    more = {"scale": scale, "causal": causal, "softcap": softcap, "q_slots": q_slots, "k_slots": k_slots, **windows}
    return gradients_of(control_items, q, k, v, q_lens, k_lens, d_out, sink=sink, **more)


@_declared()
def control_differentiated_block_diagonal(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Automatic differentiation of one mask of blocks for the whole pack."""
    more = {"scale": scale, "causal": causal, "window_left": window_left, "window_right": window_right}
    return gradients_of(control_block_diagonal, q, k, v, q_lens, k_lens, d_out, **more)


@_declared(causal_alignment="top_left")
def control_differentiated_padded(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    softcap: float | None = None,
    q_slots: Any = None,
    k_slots: Any = None,
) -> Any:
    """Automatic differentiation of a padded batch in double precision, whose padding is garbage."""
    more = {"scale": scale, "causal": causal, "softcap": softcap, "q_slots": q_slots, "k_slots": k_slots}
    return gradients_of(control_padded, q, k, v, q_lens, k_lens, d_out, **more)


@_declared(empty_row="nans", grouping="tiled")
def control_differentiated_segments(
    q: Any, k: Any, v: Any, q_lens: Any, k_lens: Any, d_out: Any, *, scale: float | None = None, causal: bool = False
) -> Any:
    """Automatic differentiation of a plain softmax of all scores, hidden by segment numbers."""
    return gradients_of(control_segments, q, k, v, q_lens, k_lens, d_out, scale=scale, causal=causal)
