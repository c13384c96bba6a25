"""Right, but different, as in `controls_attention`: filters of logits, and drawing from what they leave."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
INFINITY = float("inf")


# Top-k


@adapter("top_k_filter", dtypes=DTYPES, conventions={"ties": "every"})
def control_top_k_threshold(logits: Any, *, k: int) -> Any:
    """What reaches the k-th smallest of the negatives."""
    import torch

    if logits.numel() == 0:
        return logits.clone()
    k = min(k, logits.shape[-1])
    threshold = torch.kthvalue(-logits, k, -1, keepdim=True).values
    return torch.where(-logits <= threshold, logits, -INFINITY)


@adapter("top_k_filter", dtypes=DTYPES, conventions={"ties": "first"})
def control_top_k_stable(logits: Any, *, k: int) -> Any:
    """A stable sort, and a rank for every entry."""
    import torch

    order = torch.sort(logits, dim=-1, descending=True, stable=True).indices
    ranks = torch.empty_like(order).scatter_(-1, order, torch.arange(logits.shape[-1]).expand(order.shape).clone())
    return logits.masked_fill(ranks >= k, -INFINITY)


@adapter("top_k_filter", dtypes=DTYPES, conventions={"ties": "last"})
def control_top_k_reversed(logits: Any, *, k: int) -> Any:
    """A stable sort from the other end."""
    import torch

    order = torch.sort(logits, dim=-1, stable=True).indices
    kept = torch.zeros(logits.shape, dtype=torch.bool)
    kept.scatter_(-1, order[..., max(logits.shape[-1] - k, 0) :], True)
    return torch.where(kept, logits, -INFINITY)


@adapter("top_k_filter", dtypes=DTYPES, conventions={"ties": "open"})
def control_top_k_scattered(logits: Any, *, k: int) -> Any:
    """The values of torch.topk, scattered into minus infinity."""
    import torch

    values, places = torch.topk(logits, min(k, logits.shape[-1]), sorted=False)
    return torch.full_like(logits, -INFINITY).scatter(-1, places, values)


# Top-p


@adapter("top_p_filter", dtypes=DTYPES, conventions={"top_p_boundary": "at_least", "ties": "first"})
def control_top_p_running(logits: Any, *, p: float) -> Any:
    """Running sums in falling order, in single precision, less the entry itself."""
    import torch

    order = torch.sort(logits, dim=-1, descending=True, stable=True).indices
    chances = torch.softmax(logits.float(), -1).gather(-1, order)
    gone = chances.cumsum(-1) - chances >= p
    gone[..., :1] = False
    return logits.masked_fill(torch.zeros_like(gone).scatter(-1, order, gone), -INFINITY)


@adapter("top_p_filter", dtypes=DTYPES, conventions={"top_p_boundary": "at_least", "ties": "last"})
def control_top_p_from_below(logits: Any, *, p: float) -> Any:
    """Running sums in rising order, in double precision, of exponentials that are divided last."""
    import torch

    order = torch.sort(logits, dim=-1, stable=True).indices
    shifted = logits.double() - logits.double().amax(-1, keepdim=True).clamp(min=-1e300)
    terms = torch.exp2(shifted * 1.4426950408889634).gather(-1, order)
    gone = terms.cumsum(-1) <= (1 - p) * terms.sum(-1, keepdim=True)
    gone[..., -1:] = False
    return logits.masked_fill(torch.zeros_like(gone).scatter(-1, order, gone), -INFINITY)


@adapter("top_p_filter", dtypes=DTYPES, conventions={"top_p_boundary": "exceeds", "ties": "every"})
def control_top_p_pairs(logits: Any, *, p: float) -> Any:
    """The chance of everything larger, entry by entry, without sorting."""
    import torch

    x = logits.float()
    chances = torch.exp(torch.log_softmax(x, -1)).nan_to_num(0.0)
    larger = (x[..., None, :] > x[..., None]).float()
    ahead = (larger @ chances[..., None])[..., 0]
    return torch.where((ahead <= p) | (x == x.amax(-1, keepdim=True)), logits, -INFINITY)


# Sampling


def left(logits: Any, temperature: float, k: int | None, p: float | None) -> Any:
    """The tempered logits in single precision, filtered; with temperature zero the largest alone."""
    import torch

    x = logits.float()
    x = x / temperature if temperature > 0 else torch.where(x == x.amax(-1, keepdim=True), 0.0, -INFINITY)
    x = x if k is None else control_top_k_threshold(x, k=k)
    return x if p is None else control_top_p_running(x, p=p)


@adapter("sample", dtypes=DTYPES)
def control_sample_gumbel(
    logits: Any, *, seed: int, count: int, temperature: float = 1.0, k: int | None = None, p: float | None = None
) -> Any:
    """The largest of the logits with Gumbel noise, no chances being computed."""
    import torch

    x = left(logits, temperature, k, p)
    uniform = torch.rand(len(x), count, x.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (x[:, None] - uniform.log_().neg_().log_()).argmax(-1)


@adapter("sample", dtypes=DTYPES)
def control_sample_inverse(
    logits: Any, *, seed: int, count: int, temperature: float = 1.0, k: int | None = None, p: float | None = None
) -> Any:
    """The running sums searched for uniform numbers."""
    import numpy as np
    import torch

    sums = torch.softmax(left(logits, temperature, k, p), -1).double().cumsum(-1)
    uniform = torch.from_numpy(np.random.default_rng(seed).random((len(logits), count)))
    return torch.searchsorted(sums, uniform * sums[:, -1:], right=True).clamp(max=logits.shape[1] - 1)


@adapter("sample", dtypes=DTYPES)
def control_sample_joint(
    logits: Any, *, seed: int, count: int, temperature: float = 1.0, k: int | None = None, p: float | None = None
) -> Any:
    """Both filters on the whole tempered row, and what both leave drawn by torch.multinomial."""
    import torch

    whole = left(logits, temperature, None, None)
    kept = torch.where(left(logits, temperature, None, p) > -INFINITY, left(logits, temperature, k, None), -INFINITY)
    chances = torch.where(kept > -INFINITY, torch.softmax(whole, -1), 0.0)
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(chances.double(), count, replacement=True, generator=generator)


@adapter("sample", dtypes=DTYPES)
def control_sample_tempered_last(
    logits: Any, *, seed: int, count: int, temperature: float = 1.0, k: int | None = None, p: float | None = None
) -> Any:
    """Both filters on the row as it is, and the temperature on what they leave, which is llama.cpp's order."""
    import torch

    chances = torch.softmax(left(left(logits, 1.0, k, p), temperature, None, None).double(), -1)
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(chances, count, replacement=True, generator=generator)
