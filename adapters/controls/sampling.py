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


# Min-p


@adapter("min_p_filter", dtypes=DTYPES)
def control_min_p_of_chances(logits: Any, *, p: float) -> Any:
    """Chances in single precision, removed where they are less."""
    import torch

    chances = torch.softmax(logits.float(), -1)
    if chances.numel() == 0:
        return logits.clone()
    return logits.masked_fill(chances < p * chances.amax(-1, keepdim=True), -INFINITY)


@adapter("min_p_filter", dtypes=DTYPES)
def control_min_p_of_distances(logits: Any, *, p: float) -> Any:
    """Distances from the largest logit, of which one sort serves all rows."""
    import math

    import torch

    best = torch.sort(logits.float(), dim=-1).values[..., -1:]
    return torch.where(logits.float() - best >= math.log(p), logits, -INFINITY)


@adapter("min_p_filter", dtypes=DTYPES)
def control_min_p_of_terms(logits: Any, *, p: float) -> Any:
    """Exponentials to base two, which are not divided by their sum, in double precision."""
    import torch

    if logits.numel() == 0:
        return logits.clone()
    shifted = logits.double() - logits.double().amax(-1, keepdim=True).clamp(min=-1e300)
    return torch.where(torch.exp2(shifted * 1.4426950408889634) >= p, logits, -INFINITY)


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


# Rows of different requests


@adapter("filter_rows", dtypes=DTYPES, conventions={"chance_for_p": "of_the_left"})
def control_rows_by_one_sort(logits: Any, temperature: Any = None, k: Any = None, p: Any = None) -> Any:
    """All rows at once: one sort in rising order, thresholds by position, running sums from below."""
    import torch

    x = logits if temperature is None else (logits.float() / temperature[:, None]).to(logits.dtype)
    ordered, order = torch.sort(x.float(), dim=-1)
    if k is not None:
        threshold = ordered.gather(-1, (x.shape[-1] - k.long().clamp(max=x.shape[-1]))[:, None])
        ordered = ordered.masked_fill(ordered < threshold, -INFINITY)
    if p is not None:
        gone = torch.softmax(ordered, -1).cumsum(-1) <= 1 - p[:, None]
        gone[:, -1:] = False
        ordered = ordered.masked_fill(gone, -INFINITY)
    kept = torch.empty_like(ordered).scatter_(-1, order, ordered) > -INFINITY
    return torch.where(kept, x, -INFINITY)


@adapter("filter_rows", dtypes=DTYPES, conventions={"chance_for_p": "of_all"})
def control_rows_jointly(logits: Any, temperature: Any = None, k: Any = None, p: Any = None) -> Any:
    """Row by row in double precision, one rank for both filters, of which the chances are those of all entries."""
    import torch

    outs = []
    for row, x in enumerate(logits):
        tempered = x.double() if temperature is None else x.double() / temperature[row].double()
        order = torch.sort(tempered, descending=True, stable=True).indices
        chances = torch.softmax(tempered, -1)[order]
        stays = torch.arange(len(x)) < (len(x) if k is None else k[row])
        if p is not None:
            stays &= (chances.cumsum(-1) - chances < p[row].double()) | (torch.arange(len(x)) == 0)
        outs.append(torch.where(torch.zeros_like(stays).scatter(0, order, stays), tempered, -INFINITY))
    return torch.stack(outs).to(logits.dtype) if outs else logits.clone()


@adapter("renormalised_filter", dtypes=DTYPES)
def control_renormalised_by_sort(probs: Any, k: Any = None, p: Any = None) -> Any:
    """Running sums of the sorted probabilities in single precision; of equal ones the first stay."""
    import torch

    if any(x is not None and len(x) != len(probs) for x in (k, p)):
        raise ValueError("there is one number for each row")
    ordered, order = torch.sort(probs.float(), descending=True, stable=True)
    gone = torch.zeros_like(ordered, dtype=torch.bool)
    if k is not None:
        gone |= torch.arange(probs.shape[1]) >= k[:, None]
    if p is not None:
        gone |= ordered.cumsum(-1) - ordered >= p[:, None]
    gone[:, :1] = False
    left = ordered.masked_fill(gone, 0.0)
    shares = left / left.sum(-1, keepdim=True)
    return torch.zeros_like(shares).scatter(-1, order, shares).to(probs.dtype)


@adapter("renormalised_filter", dtypes=DTYPES)
def control_renormalised_by_search(probs: Any, k: Any = None, p: Any = None) -> Any:
    """A threshold for each row, found by bisection over the bits in double precision; equal entries stay together."""
    import torch

    if any(x is not None and len(x) != len(probs) for x in (k, p)):
        raise ValueError("there is one number for each row")
    x = probs.double()
    low, high = torch.zeros(len(x), 1, dtype=torch.int64), torch.full((len(x), 1), 1 << 62)
    for _ in range(64):
        pivot = low + (high - low) // 2
        above = x > pivot.view(torch.float64)  # of positive numbers, the order is that of their bits
        few = torch.ones_like(low, dtype=torch.bool)
        if k is not None:
            few &= above.sum(-1, keepdim=True) < k[:, None]
        if p is not None:
            few &= (x * above).sum(-1, keepdim=True) < p[:, None].double()
        low, high = torch.where(few, low, pivot + 1), torch.where(few, pivot, high)
    everything = torch.zeros_like(x, dtype=torch.bool) if k is not None or p is not None else x >= 0
    left = torch.where((x >= high.view(torch.float64)) | everything, x, 0.0)
    return (left / left.sum(-1, keepdim=True)).to(probs.dtype)


@adapter("sample_rows", dtypes=DTYPES)
def control_rows_by_generators(
    logits: Any, seeds: Any, temperature: Any = None, k: Any = None, p: Any = None, *, count: int
) -> Any:
    """A generator for each row, and one draw of all its tokens."""
    import torch

    chances = torch.softmax(control_rows_by_one_sort(logits.float(), temperature, k, p), -1)
    drawn = [
        torch.multinomial(row, count, replacement=True, generator=torch.Generator().manual_seed(int(seed)))
        for row, seed in zip(chances, seeds, strict=True)
    ]
    return torch.stack(drawn) if drawn else torch.zeros((0, count), dtype=torch.int64)


@adapter("sample_rows", framework="numpy", dtypes=("float64", "float32"))
def control_rows_by_counters(
    logits: Any, seeds: Any, temperature: Any = None, k: Any = None, p: Any = None, *, count: int
) -> Any:
    """Gumbel noise of a counter-based generator whose key is the seed, and the place of the largest sum."""
    import numpy as np

    tokens = np.empty((len(logits), count), np.int64)
    for row, seed in enumerate(seeds):
        x = logits[row] / (1 if temperature is None else temperature[row])
        order = np.argsort(-x, kind="stable")
        x[order[len(x) if k is None else k[row] :]] = -np.inf
        if p is not None:
            terms = np.exp(x - x.max())[order]
            gone = (terms.cumsum() - terms) / terms.sum() >= p[row]
            x[order[gone & (np.arange(len(x)) > 0)]] = -np.inf
        noise = np.random.Generator(np.random.Philox(key=int(seed))).gumbel(size=(count, len(x)))
        tokens[row] = (x + noise).argmax(-1)
    return tokens
