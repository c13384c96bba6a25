"""Right, but different: parameters divided and operations counted in other ways, which no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter("decay_groups", framework="numpy")
def control_two_lists(ranks: Any) -> Any:
    """Two lists of indices, one of them turned into truths."""
    import numpy as np

    lists: tuple[list[int], list[int]] = ([], [])
    for index, rank in enumerate(ranks.tolist()):
        if rank < 0:
            raise ValueError("no parameter has fewer axes than none")
        lists[len((1,) * rank) > 1].append(index)
    return np.isin(np.arange(len(ranks)), lists[1])


@adapter("decay_groups")
def control_products_of_parameters(ranks: Any) -> Any:
    """By the sign of a product, without a comparison with two."""
    if (ranks < 0).any():
        raise ValueError("no parameter has fewer axes than none")
    return (ranks * (ranks - 1)).bool()


@adapter("model_flops", conventions={"counted": "all_parameters"})
def control_counted_modules(
    *,
    layers: int,
    heads: int,
    dim: int,
    hidden: int,
    vocab: int,
    length: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    gated: bool = True,
) -> Any:
    """The parameters of a model of modules without memory, counted by torch."""
    import torch

    if layers < 1 or (head_dim is None and dim % heads):
        raise ValueError("there is a layer, and the heads divide the width")
    q = heads * (head_dim or dim // heads)
    kv = q // heads * (kv_heads or heads)
    feed_forward = [(dim, hidden)] * (1 + gated) + [(hidden, dim)]
    with torch.device("meta"):
        layer = [
            torch.nn.Linear(a, b, bias=False) for a, b in [(dim, q), (dim, kv), (dim, kv), (q, dim), *feed_forward]
        ]
        ends = [torch.nn.Embedding(vocab, dim), torch.nn.RMSNorm(dim)]
        norms = [torch.nn.RMSNorm(dim), torch.nn.RMSNorm(dim)]
    count = {
        name: sum(p.numel() for m in ms for p in m.parameters())
        for name, ms in (("layer", [*layer, *norms]), ("ends", ends))
    }
    return 6 * (layers * count["layer"] + count["ends"]) + 12 * layers * q * length


@adapter("model_flops", framework="numpy", conventions={"counted": "products"})
def control_operation_by_operation(
    *,
    layers: int,
    heads: int,
    dim: int,
    hidden: int,
    vocab: int,
    length: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
) -> Any:
    """Every product of the forward pass by its two operations, three times; a gated feed-forward alone."""
    import numpy as np

    if layers < 1 or (head_dim is None and dim % heads):
        raise ValueError("there is a layer, and the heads divide the width")
    size = head_dim or dim // heads
    groups = kv_heads or heads
    layer = [
        dim * heads * size,
        2 * dim * groups * size,
        2 * heads * size * length,
        heads * size * dim,
        3 * dim * hidden,
    ]
    return np.int64(3 * 2 * (layers * sum(layer) + dim * vocab))
