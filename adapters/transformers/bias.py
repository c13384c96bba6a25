"""The biases of relative positions in the models of Hugging Face transformers, as T5 and Swin have them.

Source: transformers/models/t5/modeling_t5.py (T5Attention.compute_bias) and swin/modeling_swin.py.
A decoder has buckets for keys behind the query alone, and an encoder for both directions.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated


def computed(table: Any, q_len: int, k_len: int, bidirectional: bool, max_distance: int) -> Any:
    """The bias of an attention with this table."""
    import torch
    import transformers
    from transformers.models.t5.modeling_t5 import T5Attention

    made: Any = transformers.T5Config
    config = made(
        d_model=1,
        d_kv=1,
        num_heads=table.shape[1],
        relative_attention_num_buckets=table.shape[0],
        relative_attention_max_distance=max_distance,
        is_decoder=not bidirectional,
    )
    with torch.device("meta"):
        attention: Any = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    del attention.relative_attention_bias.weight  # a parameter, in whose place a tensor keeps what it was made by
    attention.relative_attention_bias.weight = table
    return attention.compute_bias(q_len, k_len, past_seen_tokens=k_len - q_len)[0]


@adapter(
    "bucketed_bias",
    dtypes=("float32", "bfloat16", "float16"),
    package="transformers",
    extra="transformers",
)
def transformers_t5_bias(
    table: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> Any:
    """T5Attention.compute_bias."""
    return computed(table, q_len, k_len, bidirectional, max_distance)


@adapter(
    "bucketed_bias_gradient",
    dtypes=("float32", "bfloat16", "float16"),
    package="transformers",
    extra="transformers",
)
def transformers_t5_bias_gradient(
    table: Any, d_out: Any, *, q_len: int, k_len: int, bidirectional: bool = False, max_distance: int = 128
) -> dict[str, Any]:
    """T5Attention.compute_bias, by automatic differentiation of its embedding."""

    def bias(table: Any) -> Any:
        return computed(table, q_len, k_len, bidirectional, max_distance)

    return differentiated(bias, d_out, table=table)


def placed(table: Any, height: int, width: int) -> Any:
    """The bias of a window with this table."""
    from transformers.models.swin.modeling_swin import SwinRelativePositionBias

    place: Any = SwinRelativePositionBias(table.shape[1], (height, width))
    del place.relative_position_bias_table  # a parameter, in whose place a tensor keeps what it was made by
    place.relative_position_bias_table = table
    return place()[0]


@adapter(
    "window_bias",
    dtypes=("float32", "bfloat16", "float16"),
    package="transformers",
    extra="transformers",
)
def transformers_swin_bias(table: Any, *, height: int, width: int) -> Any:
    """SwinRelativePositionBias of transformers.models.swin."""
    return placed(table, height, width)


@adapter(
    "window_bias_gradient",
    dtypes=("float32", "bfloat16", "float16"),
    package="transformers",
    extra="transformers",
)
def transformers_swin_bias_gradient(table: Any, d_out: Any, *, height: int, width: int) -> dict[str, Any]:
    """SwinRelativePositionBias of transformers.models.swin, by automatic differentiation."""
    return differentiated(lambda table: placed(table, height, width), d_out, table=table)
