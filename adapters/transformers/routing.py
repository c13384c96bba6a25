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


def capped(kind: Any, logits: Any, capacity: int | None, **config: Any) -> Any:
    """A router whose matrix is the identity; without a capacity, experts have places for all tokens."""
    import torch

    experts = logits.shape[1]
    sizes: dict[str, Any] = {
        "num_experts": experts,
        "hidden_size": experts,
        "router_bias": False,
        "router_dtype": "float32",
    }
    sizes["expert_capacity"] = len(logits) if capacity is None else capacity
    router = new_layer(kind, SimpleNamespace(**sizes, router_ignore_padding_tokens=False, **config)).eval()
    router.classifier.weight = torch.nn.Parameter(torch.eye(experts), requires_grad=False)
    return router


CAPPED: dict[str, Any] = {**SOFTMAX, "scaling": 1.0, "scoring": "softmax_scores"}


@adapter(
    "moe_routing",
    fixed={**CAPPED, "k": 1, "renormalise": False},
    conventions={"drop_order": "by_position"},
    **DECLARED,
)
def switch_transformers_router(logits: Any, *, k: int = 1, capacity: int | None = None) -> Any:
    """SwitchTransformersTop1Router of transformers.models.switch_transformers."""
    from transformers.models.switch_transformers.modeling_switch_transformers import SwitchTransformersTop1Router

    router = capped(SwitchTransformersTop1Router, logits, capacity, router_jitter_noise=0.0)
    sent, largest, _ = router(logits[None])
    return (sent * largest)[0]


def nllb(logits: Any, capacity: int | None, *, before: bool = False, prioritised: bool = False) -> Any:
    """The weights that NllbMoeTop2Router gives, normalised before it drops tokens or behind."""
    from transformers.models.nllb_moe.modeling_nllb_moe import NllbMoeTop2Router

    router = capped(
        NllbMoeTop2Router,
        logits,
        capacity,
        second_expert_policy="all",
        normalize_router_prob_before_dropping=before,
        batch_prioritized_routing=prioritised,
        moe_eval_capacity_token_fraction=-1.0,
    )
    return router(logits)[1]


TOP_TWO: dict[str, Any] = {
    "fixed": {**CAPPED, "k": 2, "renormalise": True},
    "requires": "experts > 1",
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    **DECLARED,
}


@adapter("moe_routing", conventions={"drop_order": "by_choice", "renormalised_over": "all_kept"}, **TOP_TWO)
def nllb_moe_router(logits: Any, *, k: int = 2, renormalise: bool = True, capacity: int | None = None) -> Any:
    """NllbMoeTop2Router of transformers.models.nllb_moe, as its configuration is by default."""
    return nllb(logits, capacity)


@adapter("moe_routing", conventions={"drop_order": "by_choice", "renormalised_over": "all_chosen"}, **TOP_TWO)
def nllb_moe_router_normalised(
    logits: Any, *, k: int = 2, renormalise: bool = True, capacity: int | None = None
) -> Any:
    """NllbMoeTop2Router with weights that are normalised before tokens are dropped."""
    return nllb(logits, capacity, before=True)


@adapter("moe_routing", conventions={"drop_order": "by_importance", "renormalised_over": "all_kept"}, **TOP_TWO)
def nllb_moe_router_prioritised(
    logits: Any, *, k: int = 2, renormalise: bool = True, capacity: int | None = None
) -> Any:
    """NllbMoeTop2Router with important tokens first."""
    return nllb(logits, capacity, prioritised=True)
