"""Mixture-of-experts blocks as models of Hugging Face transformers have them, router and experts together.

Source: transformers/models/mixtral/modeling_mixtral.py (MixtralSparseMoeBlock) and
transformers/models/qwen3_moe/modeling_qwen3_moe.py (Qwen3MoeSparseMoeBlock).
The scores of the router are computed in float32, and what experts make is added up in the dtype of the tokens.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from .. import adapter
from ..torch.layers import new_layer
from .experts import fill

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    "package": "transformers",
    "extra": "transformers",
}


def block(model: str, name: str, x: Any, w_router: Any, w_gate: Any, w_up: Any, w_down: Any, **config: Any) -> Any:
    """A block of a model, filled with the weights of a case."""
    import torch

    modeling = import_module(f"transformers.models.{model}.modeling_{model}")
    sizes = dict.fromkeys(("num_local_experts", "num_experts"), len(w_gate))
    sizes |= dict.fromkeys(("intermediate_size", "moe_intermediate_size"), w_gate.shape[2])
    given = {"hidden_size": x.shape[1], "hidden_act": "silu", "router_jitter_noise": 0.0}
    made = new_layer(
        getattr(modeling, name), SimpleNamespace(**sizes, **given, **config, _experts_implementation="eager")
    )
    made.gate.weight = torch.nn.Parameter(w_router.mT.contiguous(), requires_grad=False)
    fill(made.experts, w_gate, w_up, w_down)
    out = made(x[None])
    return (out[0] if isinstance(out, tuple) else out)[0]


@adapter("moe_layer", fixed={"scoring": "softmax", "renormalise": True, "scaling": 1.0}, **DECLARED)
def mixtral_moe_block(x: Any, w_router: Any, w_gate: Any, w_up: Any, w_down: Any, *, k: int) -> Any:
    """MixtralSparseMoeBlock of transformers.models.mixtral."""
    return block("mixtral", "MixtralSparseMoeBlock", x, w_router, w_gate, w_up, w_down, num_experts_per_tok=k)


@adapter("moe_layer", fixed={"scoring": "softmax", "scaling": 1.0}, **DECLARED)
def qwen3_moe_block(
    x: Any, w_router: Any, w_gate: Any, w_up: Any, w_down: Any, *, k: int, renormalise: bool = False
) -> Any:
    """Qwen3MoeSparseMoeBlock of transformers.models.qwen3_moe."""
    return block(
        "qwen3_moe", "Qwen3MoeSparseMoeBlock", x, w_router, w_gate, w_up, w_down,
        num_experts_per_tok=k, norm_topk_prob=renormalise,
    )  # fmt: skip
