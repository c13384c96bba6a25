"""Right, but different: biases of relative positions, none of which a law may accuse."""

from __future__ import annotations

import bisect
import math
from typing import Any

from .. import adapter

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
