"""Right, but different: sums within chunks, and of segments, in other orders."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


@adapter("chunk_cumsum", dtypes=DTYPES)
def control_chunk_sums_by_chunks(x: Any, *, chunk_size: int, reverse: bool = False, scale: float = 1.0) -> Any:
    """Chunk by chunk, each turned round where sums run back."""
    import torch

    parts = [part.float().flip(2) if reverse else part.float() for part in x.split(chunk_size, 2)]
    sums = [part.cumsum(2) for part in parts]
    return scale * torch.cat([part.flip(2) if reverse else part for part in sums], 2)


@adapter("chunk_cumsum", dtypes=DTYPES)
def control_chunk_sums_by_products(x: Any, *, chunk_size: int, reverse: bool = False, scale: float = 1.0) -> Any:
    """A product with a triangle of ones, whose blocks are chunks."""
    import torch

    t = torch.arange(x.shape[2])
    ahead = t[:, None] >= t if reverse else t[:, None] <= t
    triangle = ahead & (t[:, None] // chunk_size == t // chunk_size)
    return scale * (x.float() @ triangle.float())


@adapter("chunk_cumsum", framework="numpy", dtypes=("float32",))
def control_chunk_sums_by_doubling(x: Any, *, chunk_size: int, reverse: bool = False, scale: float = 1.0) -> Any:
    """Sums over twice the distance in each round, within chunks."""
    import numpy as np

    sums, distance, t = x[..., :: -1 if reverse else 1].copy(), 1, np.arange(x.shape[2])
    chunk = (t[::-1] if reverse else t) // chunk_size
    while distance < min(chunk_size, x.shape[2]):
        own = chunk[distance:] == chunk[:-distance]
        sums[..., distance:] = sums[..., distance:] + np.where(own, sums[..., :-distance], 0)
        distance *= 2
    return (np.float32(scale) * sums[..., :: -1 if reverse else 1]).astype(np.float32)


@adapter("segment_sums", dtypes=DTYPES)
def control_segment_sums_row_by_row(x: Any) -> Any:
    """Each row of the square is the one before it and the number of its place."""
    import torch

    rows, n = x.shape
    total, sums = torch.zeros(rows, n), torch.full((rows, n, n), -torch.inf)
    for i in range(n):
        total[:, :i] += x[:, i, None].float()
        sums[:, i, : i + 1] = total[:, : i + 1]
    return sums.to(x.dtype)


@adapter("segment_sums", dtypes=DTYPES)
def control_segment_sums_column_by_column(x: Any) -> Any:
    """Each column of the square by its own running sum."""
    import torch

    rows, n = x.shape
    sums = torch.full((rows, n, n), -torch.inf)
    for j in range(n):
        sums[:, j, j] = 0
        sums[:, j + 1 :, j] = x[:, j + 1 :].float().cumsum(1)
    return sums.to(x.dtype)


@adapter("segment_sums", framework="numpy", dtypes=("float32",))
def control_segment_sums_from_the_end(x: Any) -> Any:
    """Each row of the square added up from its diagonal back."""
    import numpy as np

    rows, n = x.shape
    sums = np.full((rows, n, n), -np.inf, np.float32)
    for i in range(n):
        sums[:, i, i] = 0
        sums[:, i, :i] = np.cumsum(x[:, i:0:-1], axis=1)[:, ::-1]
    return sums
