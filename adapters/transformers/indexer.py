"""The lightning indexers of models in Hugging Face transformers, as they choose keys.

Source: transformers/models/*/modeling_*.py, by the names of the classes below.
Their maps are the identity here, keys come from what stands for a cache, and no channel is turned by position.
They reckon in float32; hidden keys have a score of minus infinity, and fill the rows of queries that see fewer keys.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .. import adapter
from ..torch.layers import new_layer

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "transformers",
    "extra": "transformers",
}


def indexed(model: str, name: str, q: Any, k: Any, w: Any, top_k: int, causal: bool) -> Any:
    """Which keys an indexer chooses: [batch, q_len, k_len]."""
    import importlib

    import torch

    if k.shape[2] != q.shape[3]:
        raise ValueError("queries and keys have one head size")
    batch, q_len, heads, width = q.shape
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    sizes = {"hidden_size": heads, "index_n_heads": heads, "index_head_dim": width, "q_lora_rank": heads * width}
    config = SimpleNamespace(**sizes, qk_rope_head_dim=0, index_topk=top_k)
    indexer = new_layer(getattr(modeling, name), config, 0).to(q.dtype)
    for layer, rank in ((indexer.wq_b, heads * width), (indexer.weights_proj, heads)):
        layer.weight = torch.nn.Parameter(torch.eye(rank, dtype=q.dtype), requires_grad=False)
    seen = torch.ones(q_len, k.shape[1], dtype=torch.bool)
    mask = (seen.tril(k.shape[1] - q_len) if causal else seen).expand(batch, -1, -1)
    turned = (q.new_zeros(batch, q_len, 0),) * 2
    cache = SimpleNamespace(update_indexer=lambda own, layer: k)
    chosen = indexer(w, q.flatten(2), turned, mask, None, cache)
    return torch.zeros(mask.shape, dtype=torch.bool).scatter(2, chosen.long(), True)


@adapter("lightning_indexer", **DECLARED)
def deepseek_v32_indexer(q: Any, k: Any, w: Any, *, top_k: int, causal: bool = True) -> Any:
    """DeepseekV32Indexer of transformers.models.deepseek_v32."""
    return indexed("deepseek_v32", "DeepseekV32Indexer", q, k, w, top_k, causal)


@adapter("lightning_indexer", **DECLARED)
def glm_moe_dsa_indexer(q: Any, k: Any, w: Any, *, top_k: int, causal: bool = True) -> Any:
    """GlmMoeDsaIndexer of transformers.models.glm_moe_dsa."""
    return indexed("glm_moe_dsa", "GlmMoeDsaIndexer", q, k, w, top_k, causal)
