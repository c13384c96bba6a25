"""Right, but different: tokens sorted by their experts and brought back, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def known(chosen: Any, tokens: int, experts: int) -> None:
    if len(chosen) != tokens or bool((chosen >= experts).any()):
        raise ValueError("every token has its choices, each of an expert that there is")


def placed(chosen: Any) -> tuple[Any, int]:
    """The row of each pair of token and choice, and how many have one."""
    import torch

    pairs = chosen.flatten().long()
    order = torch.where(pairs < 0, 2**62, pairs).argsort(stable=True)
    return order.argsort(), int((pairs >= 0).sum())


@adapter("token_permutation", dtypes=DTYPES)
def control_permutation_by_sorting(x: Any, chosen: Any, *, experts: int) -> Any:
    """Numbers of experts are sorted, choices of none behind the others, and rows read by the order."""
    import torch

    known(chosen, len(x), experts)
    places, sent = placed(chosen)
    order = places.argsort()
    sizes = torch.bincount(chosen.flatten()[order[:sent]], minlength=experts)
    sources = order // chosen.shape[1]
    return {"rows": x[sources], "block_sizes": sizes, "sources": sources, "places": places.view(chosen.shape)}


@adapter("token_permutation", dtypes=DTYPES)
def control_permutation_by_masks(x: Any, chosen: Any, *, experts: int) -> Any:
    """Rows are written expert by expert, and what is behind them stays NaN."""
    import torch

    known(chosen, len(x), experts)
    rows = torch.full((chosen.numel(), x.shape[1]), torch.nan, dtype=x.dtype)
    sources = torch.full((chosen.numel(),), -7)
    places = torch.full(chosen.shape, -7)
    sizes, at = [], 0
    for expert in range(experts):
        token, choice = (chosen == expert).nonzero(as_tuple=True)
        end = at + len(token)
        rows[at:end], sources[at:end] = x[token], token
        places[token, choice] = torch.arange(at, end)
        sizes.append(len(token))
        at = end
    return {"rows": rows, "block_sizes": torch.tensor(sizes), "sources": sources, "places": places}


def matching(rows: Any, chosen: Any, weights: Any) -> None:
    if len(rows) != chosen.numel() or (weights is not None and weights.shape != chosen.shape):
        raise ValueError("every choice has a row and a weight")


@adapter("token_unpermutation", dtypes=DTYPES)
def control_unpermutation_by_reading(rows: Any, chosen: Any, weights: Any = None) -> Any:
    """Every choice reads its row, and choices are added up in double precision."""
    import torch

    matching(rows, chosen, weights)
    picked = rows.double()[placed(chosen)[0]].unflatten(0, chosen.shape)
    weighed = picked if weights is None else picked * weights.double()[..., None]
    return torch.where((chosen >= 0)[..., None], weighed, 0.0).sum(1).to(rows.dtype)


@adapter("token_unpermutation", dtypes=DTYPES, grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"})
def control_unpermutation_by_writing(rows: Any, chosen: Any, weights: Any = None) -> Any:
    """Rows, from the last to the first, are weighed and added to their tokens in their dtype."""
    import torch

    matching(rows, chosen, weights)
    places, sent = placed(chosen)
    order = places.argsort()[:sent].flip(0)
    weighed = rows[:sent].flip(0)
    if weights is not None:
        weighed = weighed * weights.flatten()[order, None]
    return torch.zeros(len(chosen), rows.shape[1], dtype=rows.dtype).index_add_(0, order // chosen.shape[1], weighed)
