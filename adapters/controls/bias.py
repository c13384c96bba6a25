"""Right, but different: biases of relative positions, none of which a law may accuse."""

from __future__ import annotations

import bisect
import math
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated

DTYPES = ("float32", "bfloat16", "float16")


def checked(table: Any, q_len: int, k_len: int, max_distance: int) -> None:
    """Refuse fewer keys than queries, and buckets that do not lie in halves."""
    if k_len < q_len or table.shape[0] % 4 or max_distance <= table.shape[0] // 2:
        raise ValueError("there are as many keys as queries, and distances beyond the buckets of one each")


@adapter("bucketed_bias", dtypes=DTYPES)
def control_buckets_by_borders(
    table: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> Any:
    """The bucket of every distance, looked up once among the borders, and rows that are stretches of one strip."""
    import torch

    checked(table, q_len, k_len, max_distance)
    own = table.shape[0] // 2 if bidirectional else table.shape[0]
    borders = [*range(1, own // 2 + 1)]
    growth = max_distance / (own // 2)
    borders += [own // 2 * growth ** (step / (own - own // 2)) for step in range(1, own - own // 2)]
    found = [bisect.bisect_right(borders, distance) for distance in range(k_len)]
    ahead = [own + bucket if bidirectional else 0 for bucket in found[1:q_len]]
    strip = table[torch.tensor([*reversed(found), *ahead])].T
    return torch.stack([strip[:, q_len - 1 - i : q_len - 1 - i + k_len] for i in range(q_len)], 1)


@adapter("bucketed_bias", dtypes=DTYPES)
def control_buckets_by_logarithm(
    table: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> Any:
    """All pairs at once, by logarithms to base two in double precision, and a product with one-hot rows."""
    import torch

    checked(table, q_len, k_len, max_distance)
    relative = torch.arange(k_len) - (k_len - q_len + torch.arange(q_len))[:, None]
    own = table.shape[0] // 2 if bidirectional else table.shape[0]
    distance = relative.abs() if bidirectional else (-relative).clamp_min(0)
    steps = (distance / (own // 2)).double().clamp_min(1).log2() / math.log2(max_distance / (own // 2))
    far = (own // 2 + (steps * (own - own // 2)).floor().long()).clamp_max(own - 1)
    bucket = torch.where(distance < own // 2, distance, far) + (relative > 0) * own * bidirectional
    return (torch.nn.functional.one_hot(bucket, table.shape[0]).to(table.dtype) @ table).permute(2, 0, 1)


@adapter("bucketed_bias_gradient", dtypes=DTYPES)
def control_bucket_gradients_by_strips(
    table: Any, d_out: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> dict[str, Any]:
    """Back through the stretches of one strip, in single precision."""

    def bias(table: Any) -> Any:
        asked = {"q_len": q_len, "k_len": k_len, "bidirectional": bidirectional, "max_distance": max_distance}
        return control_buckets_by_borders(table, **asked)

    found = differentiated(bias, d_out.float(), table=table.float())
    return {"d_table": found["d_table"].to(table.dtype)}


@adapter("bucketed_bias_gradient", dtypes=DTYPES)
def control_bucket_gradients_by_product(
    table: Any, d_out: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> dict[str, Any]:
    """Back through the product with one-hot rows, in the dtype of the table."""

    def bias(table: Any) -> Any:
        asked = {"q_len": q_len, "k_len": k_len, "bidirectional": bidirectional, "max_distance": max_distance}
        return control_buckets_by_logarithm(table, **asked)

    return differentiated(bias, d_out, table=table)


def whole(table: Any, height: int, width: int) -> None:
    """Refuse a table of another window."""
    if len(table) != (2 * height - 1) * (2 * width - 1):
        raise ValueError("the table has a number for every offset of the window")


@adapter("window_bias", dtypes=DTYPES)
def control_window_by_views(table: Any, *, height: int, width: int) -> Any:
    """The table turned round, of which each query sees a piece as large as the window."""
    whole(table, height, width)
    image = table.T.unflatten(1, (2 * height - 1, 2 * width - 1)).flip(1, 2)
    pieces = image.unfold(1, height, 1).unfold(2, width, 1).flip(1, 2)  # [heads, height, width, height, width]
    return pieces.flatten(3, 4).flatten(1, 2)


@adapter("window_bias", dtypes=DTYPES)
def control_window_by_rows(table: Any, *, height: int, width: int) -> Any:
    """Row by row of queries and of keys, each pair a stretch of one row of the table."""
    import torch

    whole(table, height, width)
    bias = table.new_zeros(table.shape[1], height * width, height * width)
    back = torch.arange(width)[:, None] - torch.arange(width) + width - 1
    for r in range(height):
        for s in range(height):
            start = (r - s + height - 1) * (2 * width - 1)
            found = table[start : start + 2 * width - 1][back].permute(2, 0, 1)
            bias[:, r * width : (r + 1) * width, s * width : (s + 1) * width] = found
    return bias


def cotangent(table: Any, d_out: Any, height: int, width: int) -> None:
    """Refuse a table of another window, and a cotangent of other pairs."""
    whole(table, height, width)
    if d_out.shape != (table.shape[1], height * width, height * width):
        raise ValueError("there is one entry of the cotangent for every pair of places")


@adapter("window_bias_gradient", dtypes=DTYPES)
def control_window_gradient_by_views(table: Any, d_out: Any, *, height: int, width: int) -> dict[str, Any]:
    """Back through the pieces of the table that queries see, in single precision."""
    cotangent(table, d_out, height, width)

    def bias(table: Any) -> Any:
        return control_window_by_views(table, height=height, width=width)

    found = differentiated(bias, d_out.float(), table=table.float())
    return {"d_table": found["d_table"].to(table.dtype)}


@adapter("window_bias_gradient", dtypes=DTYPES)
def control_window_gradient_by_offsets(table: Any, d_out: Any, *, height: int, width: int) -> dict[str, Any]:
    """Offset by offset, the sum over the overlap of the window with itself moved by so much, in double precision."""
    import torch

    cotangent(table, d_out, height, width)
    pairs = d_out.double().unflatten(1, (height, width)).unflatten(3, (height, width))
    found = torch.zeros(2 * height - 1, 2 * width - 1, table.shape[1], dtype=torch.float64)
    for down in range(1 - height, height):
        for right in range(1 - width, width):
            rows = torch.arange(max(down, 0), height + min(down, 0))
            columns = torch.arange(max(right, 0), width + min(right, 0))
            r, c = rows[:, None], columns[None]
            found[down + height - 1, right + width - 1] = pairs[:, r, c, r - down, c - right].sum((1, 2))
    return {"d_table": found.flatten(0, 1).to(table.dtype)}
