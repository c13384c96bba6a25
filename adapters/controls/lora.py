"""Right, but different: low-rank adapters of the tokens of a batch, in ways none of which a law may accuse."""

from __future__ import annotations

import itertools
from typing import Any

from .. import adapter as declared


def fitting(x: Any, a: Any, b: Any, adapter: Any, widths: Any = None) -> list[int]:
    """The widths of all slices, of a call that is one."""
    found = [b.shape[1]] if widths is None else [int(width) for width in widths]
    if len(x) != len(adapter) or x.shape[1] != a.shape[3] or len(found) != a.shape[1] or sum(found) != b.shape[1]:
        raise ValueError("every token has an adapter and its channels, and every slice a width")
    return found


def held(ranks: Any, rank: int) -> Any:
    """Which ranks an adapter has: [adapters, rank]."""
    import torch

    return torch.arange(rank, device=ranks.device) < ranks[:, None]


@declared("lora_matmul", dtypes=("float32", "bfloat16", "float16"))
def control_lora_by_tokens(
    x: Any,
    a: Any,
    b: Any,
    adapter: Any,
    base: Any = None,
    scales: Any = None,
    ranks: Any = None,
    *,
    widths: Any = None,
) -> Any:
    """Both matrices are taken for every token that has an adapter, and its scale multiplies what the first makes."""
    import torch

    found = fitting(x, a, b, adapter, widths)
    slices = torch.repeat_interleave(torch.arange(len(found)), torch.tensor(found))
    out = torch.zeros(len(x), b.shape[1]) if base is None else base.float()
    tokens = torch.nonzero(adapter >= 0)[:, 0]
    own = adapter[tokens]
    first, second = a[own].float(), b[own].float()
    if ranks is not None:
        first = first.where(held(ranks, a.shape[2])[own][:, None, :, None], 0)
        second = second.where(held(ranks, a.shape[2])[own][:, None], 0)
    low = torch.einsum("td,tsrd->tsr", x[tokens].float(), first)
    if scales is not None:
        low = low * scales[own].float()[:, None, None]
    return out.index_add(0, tokens, torch.einsum("tor,tor->to", low[:, slices], second)).to(x.dtype)


@declared("lora_matmul")
def control_lora_by_segments(
    x: Any,
    a: Any,
    b: Any,
    adapter: Any,
    base: Any = None,
    scales: Any = None,
    ranks: Any = None,
    *,
    widths: Any = None,
) -> Any:
    """Tokens are sorted by their adapter, and brought back; both products are stored in the dtype, slice by slice."""
    import torch

    found = fitting(x, a, b, adapter, widths)
    order = torch.sort(adapter, descending=True, stable=True).indices
    out = torch.zeros(len(x), b.shape[1], dtype=x.dtype) if base is None else base.clone()
    for i in range(len(a)):
        tokens = order[adapter[order] == i]
        rank = a.shape[2] if ranks is None else int(ranks[i])
        start = 0
        for s, width in enumerate(found):
            low = (x[tokens].float() @ a[i, s, :rank].float().T).to(x.dtype)
            grown = low.float() @ b[i, start : start + width, :rank].float().T
            own = (grown if scales is None else grown * scales[i]).to(x.dtype)
            out[tokens, start : start + width] += own
            start += width
    return out


@declared("lora_matmul", framework="numpy", dtypes=("float32",))
def control_lora_merged(
    x: Any,
    a: Any,
    b: Any,
    adapter: Any,
    base: Any = None,
    scales: Any = None,
    ranks: Any = None,
    *,
    widths: Any = None,
) -> Any:
    """Both matrices of an adapter are multiplied first, in double precision, and the last rank comes first."""
    import numpy as np

    ends = np.cumsum([0, *fitting(x, a, b, adapter, widths)])
    out = np.zeros((len(x), b.shape[1])) if base is None else base.astype(np.float64)
    for i in np.unique(adapter[adapter >= 0]):
        rank = a.shape[2] if ranks is None else int(ranks[i])
        factor = 1.0 if scales is None else float(scales[i])
        for s, (start, stop) in enumerate(itertools.pairwise(ends)):
            merged = b[i, start:stop, :rank][:, ::-1].astype(np.float64) @ a[i, s, :rank][::-1].astype(np.float64)
            out[adapter == i, start:stop] += factor * x[adapter == i].astype(np.float64) @ merged.T
    return out.astype(np.float32)
