"""Right, but different: attention-free transformers as kernels compute them."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def gate(q: Any) -> Any:
    """The logistic function by the hyperbolic tangent."""
    import torch

    return 0.5 * torch.tanh(0.5 * q) + 0.5


def running(k: Any, v: Any, w: Any) -> Any:
    """The weighted mean over the positions with a running maximum: k, v [batch, length, dim], w [queries, length]."""
    import torch

    shape = (k.shape[0], w.shape[0], k.shape[2])
    top, total, mixed = torch.full(shape, -torch.inf), torch.zeros(shape), torch.zeros(shape)
    for u in range(k.shape[1]):
        a = k[:, u, None] + w[:, u, None]  # [batch, queries, dim]
        new = torch.maximum(top, a)
        safe = new.masked_fill(new == -torch.inf, 0.0)
        old, p = torch.exp(top - safe), torch.exp(a - safe)
        total, mixed, top = total * old + p, mixed * old + p * v[:, u, None], new
    return mixed / total


def multiplied(k: Any, v: Any, w: Any) -> Any:
    """The same as two matrix products, in double precision, which holds what the two maxima leave."""
    import torch

    k, v, w = k.double(), v.double(), w.double()
    if not k.shape[1]:
        return k
    a = torch.exp(k - k.amax(1, keepdim=True))
    b = torch.exp(w - w.amax(1, keepdim=True))
    return (b @ (a * v)) / (b @ a)


def restricted(w: Any, window: int, outside: float) -> Any:
    """Biases of positions less than `window` apart; another number elsewhere."""
    import torch

    t = torch.arange(w.shape[0])
    return w.float().masked_fill((t[:, None] - t).abs() >= window, outside)


@adapter("aft_full", dtypes=DTYPES)
def control_aft_running(q: Any, k: Any, v: Any, w: Any) -> Any:
    """One position after the other, with a running maximum for every query and channel."""
    return (gate(q.float()) * running(k.float(), v.float(), w.float())).to(q.dtype)


@adapter("aft_full", dtypes=DTYPES)
def control_aft_products(q: Any, k: Any, v: Any, w: Any) -> Any:
    """Two matrix products in double precision."""
    return (q.double().sigmoid() * multiplied(k, v, w)).to(q.dtype)


@adapter("aft_full", dtypes=DTYPES)
def control_aft_normalised(q: Any, k: Any, v: Any, w: Any) -> Any:
    """The logsumexp of every query and channel, and weights that add up to one."""
    import torch

    a = k.float()[:, None] + w.float()[..., None]  # [batch, queries, length, dim]
    p = torch.exp(a - torch.logsumexp(a, 2, keepdim=True))
    return (gate(q.float()) * torch.einsum("btud,bud->btd", p, v.float())).to(q.dtype)


@adapter("aft_full", dtypes=DTYPES)
def control_aft_attention(q: Any, k: Any, v: Any, w: Any) -> Any:
    """Attention with a head for every channel, to which a second channel of queries and keys brings the bias."""
    import torch

    heads = [t.float().transpose(1, 2)[..., None] for t in (k, v)]  # [batch, dim, length, 1]
    mixed = torch.nn.functional.scaled_dot_product_attention(
        torch.ones_like(heads[0]), *heads, attn_mask=w.float(), scale=1.0
    )
    return (q.float().sigmoid() * mixed[..., 0].transpose(1, 2)).to(q.dtype)


@adapter("aft_local", dtypes=DTYPES, conventions={"outside_window": "zero_bias"})
def control_aft_zero_bias(q: Any, k: Any, v: Any, w: Any, *, window: int) -> Any:
    """One position after the other, biases outside the window being zero."""
    return (gate(q.float()) * running(k.float(), v.float(), restricted(w, window, 0.0))).to(q.dtype)


@adapter("aft_local", dtypes=DTYPES, conventions={"outside_window": "hidden"})
def control_aft_hidden(q: Any, k: Any, v: Any, w: Any, *, window: int) -> Any:
    """One position after the other, biases outside the window being minus infinity."""
    return (gate(q.float()) * running(k.float(), v.float(), restricted(w, window, float("-inf")))).to(q.dtype)


@adapter("aft_local", dtypes=DTYPES, conventions={"outside_window": "zero_bias"})
def control_aft_corrected(q: Any, k: Any, v: Any, w: Any, *, window: int) -> Any:
    """Two matrix products in double precision."""
    return (q.double().sigmoid() * multiplied(k, v, restricted(w, window, 0.0))).to(q.dtype)


@adapter("aft_simple", dtypes=DTYPES)
def control_aft_softmax(q: Any, k: Any, v: Any) -> Any:
    """The softmax of the keys, times the values, added up."""
    return (q.float().sigmoid() * (k.float().softmax(1) * v.float()).sum(1, keepdim=True)).to(q.dtype)


@adapter("aft_simple", dtypes=DTYPES)
def control_aft_one_query(q: Any, k: Any, v: Any) -> Any:
    """A running maximum, for one query that stands for all."""
    import torch

    return (gate(q.float()) * running(k.float(), v.float(), torch.zeros(1, k.shape[1]))).to(q.dtype)


@adapter("aft_simple", dtypes=DTYPES)
def control_aft_in_stretches(q: Any, k: Any, v: Any) -> Any:
    """Stretches of 64 positions, each by itself, merged by their logsumexps."""
    import torch

    parts = [(a.float(), b.float()) for a, b in zip(k.split(64, 1), v.split(64, 1), strict=True)]
    sums = torch.stack([torch.logsumexp(a, 1) for a, _ in parts])  # [stretches, batch, dim]
    means = torch.stack([(a.softmax(1) * b).sum(1) for a, b in parts])
    return (gate(q.float()) * (sums.softmax(0) * means).sum(0)[:, None]).to(q.dtype)
