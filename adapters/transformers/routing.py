"""The routers of models with experts in Hugging Face transformers, as they choose experts for the logits of tokens.

Source: transformers/models/*/modeling_*.py, by the names of the classes below.
A router makes logits of hidden states; here the hidden states are the logits, and its matrix is the identity.
All reckon in float32 but that of gpt-oss, which takes the softmax of the chosen logits in their dtype.
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
SOFTMAX = {"groups": 1, "kept_groups": 1}


def routed(model: str, name: str, logits: Any, k: int, bias: Any = None, **config: Any) -> Any:
    """The weights that a router gives to all experts."""
    import importlib

    import torch

    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    experts = logits.shape[1]
    sizes = {"hidden_size": experts, "num_experts": experts, "num_local_experts": experts, "num_experts_per_tok": k}
    router = new_layer(getattr(modeling, name), SimpleNamespace(**sizes, **config))
    router.weight = torch.nn.Parameter(torch.eye(experts, dtype=logits.dtype), requires_grad=False)
    if hasattr(router, "bias"):
        router.bias = torch.nn.Parameter(torch.zeros(experts, dtype=logits.dtype), requires_grad=False)
    if bias is not None:
        router.e_score_correction_bias = bias
    _, weights, chosen = router(logits)
    return torch.zeros(logits.shape, dtype=weights.dtype).scatter(1, chosen, weights)


@adapter("moe_routing", fixed={**SOFTMAX, "renormalise": True, "scaling": 1.0, "scoring": "softmax_scores"}, **DECLARED)
def mixtral_router(logits: Any, *, k: int, renormalise: bool = True) -> Any:
    """MixtralTopKRouter of transformers.models.mixtral."""
    return routed("mixtral", "MixtralTopKRouter", logits, k)


@adapter("moe_routing", fixed={**SOFTMAX, "scaling": 1.0, "scoring": "softmax_scores"}, **DECLARED)
def qwen3_next_router(logits: Any, *, k: int, renormalise: bool = False) -> Any:
    """Qwen3NextTopKRouter of transformers.models.qwen3_next."""
    return routed("qwen3_next", "Qwen3NextTopKRouter", logits, k, norm_topk_prob=renormalise)


@adapter(
    "moe_routing",
    fixed={**SOFTMAX, "renormalise": True, "scaling": 1.0, "scoring": "softmax_scores"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    **DECLARED,
)
def gpt_oss_router(logits: Any, *, k: int, renormalise: bool = True) -> Any:
    """GptOssTopKRouter of transformers.models.gpt_oss."""
    return routed("gpt_oss", "GptOssTopKRouter", logits, k)


@adapter(
    "moe_routing",
    fixed={"scoring": "sigmoid_scores"},
    conventions={"group_score": "top_two"},
    requires="experts // groups > 1",
    **DECLARED,
)
def deepseek_v3_router(
    logits: Any,
    bias: Any = None,
    *,
    k: int,
    scoring: str = "sigmoid",
    groups: int = 1,
    kept_groups: int = 1,
    renormalise: bool = False,
    scaling: float = 1.0,
) -> Any:
    """DeepseekV3TopkRouter of transformers.models.deepseek_v3."""
    config = {"n_group": groups, "topk_group": kept_groups, "norm_topk_prob": renormalise}
    return routed("deepseek_v3", "DeepseekV3TopkRouter", logits, k, bias, routed_scaling_factor=scaling, **config)
