"""Right, but different: the scores of a sliding window as kernels compute them."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def padded(x: Any, before: int, after: int) -> Any:
    """`x [batch, length, heads, head_dim]` with positions of zeros at both ends, in single precision."""
    import torch

    return torch.nn.functional.pad(x.float(), (0, 0, 0, 0, before, after))


def cleared(scores: Any, window: int, fill: float) -> Any:
    """The band with a fill value beyond the ends."""
    import torch

    length = scores.shape[1]
    column = torch.arange(length)[:, None] + torch.arange(2 * window + 1) - window
    return scores.masked_fill(((column < 0) | (column >= length))[:, None], fill)


@adapter("band_scores", dtypes=DTYPES, conventions={"beyond_ends": "minus_infinity"})
def control_diagonals(q: Any, k: Any, *, window: int) -> Any:
    """One diagonal after the other."""
    import torch

    keys, length = padded(k, window, window), q.shape[1]
    columns = [(q.float() * keys[:, c : c + length]).sum(-1) for c in range(2 * window + 1)]
    return cleared(torch.stack(columns, -1), window, float("-inf")).to(q.dtype)


@adapter("band_scores", dtypes=DTYPES, conventions={"beyond_ends": "zeros"})
def control_unfolded(q: Any, k: Any, *, window: int) -> Any:
    """The keys around every position, gathered; zeros beyond the ends."""
    import torch

    around = padded(k, window, window).unfold(1, 2 * window + 1, 1)  # [batch, length, heads, head_dim, columns]
    return torch.einsum("blhd,blhdc->blhc", q.float(), around).to(q.dtype)


@adapter("band_scores", dtypes=DTYPES, conventions={"beyond_ends": "minus_infinity"})
def control_chunks(q: Any, k: Any, *, window: int) -> Any:
    """Chunks of as many queries as the window has keys, each with the keys of three, padded to fit; a low fill."""
    import torch

    length = q.shape[1]
    rest = -length % window
    queries, keys = padded(q, 0, rest), padded(k, window, window + rest)
    queries = queries.unflatten(1, (-1, window))  # [batch, chunks, window, heads, head_dim]
    keys = keys.unfold(1, 3 * window, window)  # [batch, chunks, heads, head_dim, 3 * window]
    products = torch.einsum("bcihd,bchdj->bcihj", queries, keys)
    column = torch.arange(window)[:, None] + torch.arange(2 * window + 1)  # [window, columns]
    band = products.gather(-1, column[:, None].expand(*products.shape[:-1], 2 * window + 1))
    return cleared(band.flatten(1, 2)[:, :length], window, -60000.0).to(q.dtype)


@adapter("band_scores", dtypes=DTYPES, conventions={"beyond_ends": "minus_infinity"})
def control_dense(q: Any, k: Any, *, window: int) -> Any:
    """All products in double precision, of which the band is taken."""
    import torch

    length = q.shape[1]
    column = torch.arange(length)[:, None] + torch.arange(2 * window + 1) - window
    products = torch.einsum("bihd,bjhd->bihj", q.double(), k.double())
    nearest = column.clamp(0, max(length - 1, 0))[:, None].expand(*products.shape[:3], 2 * window + 1)
    return cleared(products.gather(-1, nearest), window, float("-inf")).to(q.dtype)
