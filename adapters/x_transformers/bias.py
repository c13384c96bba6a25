"""The bias of relative positions in buckets of x-transformers, as T5 has it.

Source: https://github.com/lucidrains/x-transformers (x_transformers/x_transformers.py, RelativePositionBias)
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "x_transformers",
    "extra": "x-transformers",
}


def computed(table: Any, q_len: int, k_len: int, bidirectional: bool, max_distance: int) -> Any:
    """The bias of a module with this table and a scale of one."""
    import torch
    from x_transformers.x_transformers import RelativePositionBias

    buckets, heads = table.shape
    with torch.device("meta"):
        module: Any = RelativePositionBias(1, not bidirectional, buckets, max_distance, heads)
    return torch.func.functional_call(module, {"relative_attention_bias.weight": table}, (q_len, k_len))


@adapter("bucketed_bias", **DECLARED)
def x_transformers_t5_bias(
    table: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> Any:
    """RelativePositionBias."""
    return computed(table, q_len, k_len, bidirectional, max_distance)


@adapter("bucketed_bias_gradient", **DECLARED)
def x_transformers_t5_bias_gradient(
    table: Any, d_out: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> dict[str, Any]:
    """RelativePositionBias, by automatic differentiation of its embedding."""

    def bias(table: Any) -> Any:
        return computed(table, q_len, k_len, bidirectional, max_distance)

    return differentiated(bias, d_out, table=table)
