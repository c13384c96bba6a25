"""The bias of relative positions in buckets of torchscale, as T5 has it.

Source: https://github.com/microsoft/torchscale (torchscale/component/relative_position_bias.py)
The first query's position is told as the step.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "torchscale",
    "extra": "torchscale",
}


def computed(table: Any, q_len: int, k_len: int, bidirectional: bool, max_distance: int) -> Any:
    """The bias of a module with this table, for a batch of one."""
    import torch
    from torchscale.component.relative_position_bias import RelativePositionBias

    with torch.device("meta"):
        module: Any = RelativePositionBias(bidirectional, table.shape[0], max_distance, table.shape[1])
    given = {"relative_attention_bias.weight": table}
    return torch.func.functional_call(module, given, (1, q_len, k_len, k_len - q_len))


@adapter("bucketed_bias", **DECLARED)
def torchscale_t5_bias(
    table: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> Any:
    """RelativePositionBias."""
    return computed(table, q_len, k_len, bidirectional, max_distance)


@adapter("bucketed_bias_gradient", **DECLARED)
def torchscale_t5_bias_gradient(
    table: Any, d_out: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> dict[str, Any]:
    """RelativePositionBias, by automatic differentiation of its embedding."""

    def bias(table: Any) -> Any:
        return computed(table, q_len, k_len, bidirectional, max_distance)

    return differentiated(bias, d_out, table=table)
