"""The biases of relative positions in the models of Hugging Face transformers, as T5 has them.

Source: transformers/models/t5/modeling_t5.py (T5Attention.compute_bias).
A decoder has buckets for keys behind the query alone, and an encoder for both directions.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


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
    attention.relative_attention_bias.weight = torch.nn.Parameter(table, requires_grad=False)
    return attention.compute_bias(q_len, k_len, past_seen_tokens=k_len - q_len)[0]
