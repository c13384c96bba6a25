"""Tokens through experts as models of Hugging Face transformers send them: one by one, all at once, and in blocks.

Source: transformers/models/mixtral/modeling_mixtral.py (MixtralExperts) and transformers/integrations/moe.py
(batched_mm_experts_forward, grouped_mm_experts_forward), by the names of `experts_implementation` in a configuration.
What experts make is stored in the dtype of the tokens.
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

WHOLE = range(8, 4097, 8)
"""Sizes of which a row takes whole parts of 16 bytes in every dtype, as torch's grouped product demands."""


def fill(experts: Any, w_gate: Any, w_up: Any, w_down: Any) -> None:
    """Give experts that have gate and up in one matrix their weights, output channels first."""
    import torch

    experts.gate_up_proj = torch.nn.Parameter(torch.cat((w_gate, w_up), 2).mT.contiguous(), requires_grad=False)
    experts.down_proj = torch.nn.Parameter(w_down.mT.contiguous(), requires_grad=False)


def computed(
    name: str, x: Any, chosen: Any, weights: Any, w_gate: Any, w_up: Any, w_down: Any, expert_map: Any = None
) -> Any:
    """The experts of Mixtral, as a configuration names their implementation.

    With a map of experts, as on one rank of several: choices of other ranks have the number behind the last expert
    and a weight of zero, as the router of a parallel model leaves them.
    """
    import torch
    from transformers.models.mixtral.modeling_mixtral import MixtralExperts

    config = SimpleNamespace(
        num_local_experts=len(w_gate),
        hidden_size=w_gate.shape[1],
        intermediate_size=w_gate.shape[2],
        hidden_act="silu",
        _experts_implementation=name,
    )
    experts = new_layer(MixtralExperts, config)
    fill(experts, w_gate, w_up, w_down)
    if expert_map is not None:
        experts._is_expert_parallel = True
        chosen = torch.where(chosen < 0, -1, expert_map[chosen.clamp(min=0)])
        weights = weights.masked_fill(chosen < 0, 0.0)
        chosen = torch.where(chosen < 0, len(w_gate), chosen)
    return experts(x, chosen, weights)


@adapter("routed_experts", grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"}, **DECLARED)
def mixtral_experts_eager(
    x: Any, chosen: Any, weights: Any, w_gate: Any, w_up: Any, w_down: Any, *, expert_map: Any = None
) -> Any:
    """MixtralExperts of transformers.models.mixtral, expert by expert, added up in the dtype of the tokens."""
    return computed("eager", x, chosen, weights, w_gate, w_up, w_down, expert_map)


@adapter("routed_experts", **DECLARED)
def mixtral_experts_batched(
    x: Any, chosen: Any, weights: Any, w_gate: Any, w_up: Any, w_down: Any, *, expert_map: Any = None
) -> Any:
    """batched_mm_experts_forward of transformers.integrations.moe, with the matrices of each pair."""
    return computed("batched_mm", x, chosen, weights, w_gate, w_up, w_down, expert_map)


@adapter("routed_experts", limits={"dim": WHOLE, "hidden": WHOLE}, **DECLARED)
def mixtral_experts_grouped(
    x: Any, chosen: Any, weights: Any, w_gate: Any, w_up: Any, w_down: Any, *, expert_map: Any = None
) -> Any:
    """grouped_mm_experts_forward of transformers.integrations.moe, with pairs sorted by their experts."""
    return computed("grouped_mm", x, chosen, weights, w_gate, w_up, w_down, expert_map)


BIASED: dict[str, Any] = {**DECLARED, "fixed": {"beta": 1.0}, "requires": "limit != none"}


def with_biases(
    name: str, x: Any, chosen: Any, weights: Any, matrices: Any, biases: Any, alpha: float, limit: float | None
) -> Any:
    """The experts of gpt-oss, whose gates and what they let through stand in turn."""
    import torch
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

    (w_gate, w_up, w_down), (b_gate, b_up, b_down) = matrices, biases
    if len(b_down) != len(w_down):
        raise ValueError("every expert has a bias")
    config = SimpleNamespace(
        num_local_experts=len(w_gate),
        hidden_size=w_gate.shape[1],
        intermediate_size=w_gate.shape[2],
        swiglu_alpha=alpha,
        swiglu_limit=limit,
        _experts_implementation=name,
    )
    experts = new_layer(GptOssExperts, config)
    for key, value in (
        ("gate_up_proj", torch.stack((w_gate, w_up), 3).flatten(2)),
        ("gate_up_proj_bias", torch.stack((b_gate, b_up), 2).flatten(1)),
        ("down_proj", w_down.contiguous()),
        ("down_proj_bias", b_down.contiguous()),
    ):
        setattr(experts, key, torch.nn.Parameter(value, requires_grad=False))
    return experts(x, chosen, weights)


@adapter("routed_experts", grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"}, **BIASED)
def gpt_oss_experts_eager(
    x: Any,
    chosen: Any,
    weights: Any,
    w_gate: Any,
    w_up: Any,
    w_down: Any,
    b_gate: Any,
    b_up: Any,
    b_down: Any,
    *,
    alpha: float = 1.0,
    limit: float | None = None,
) -> Any:
    """GptOssExperts of transformers.models.gpt_oss, expert by expert, added up in the dtype of the tokens."""
    matrices, biases = (w_gate, w_up, w_down), (b_gate, b_up, b_down)
    return with_biases("eager", x, chosen, weights, matrices, biases, alpha, limit)


@adapter("routed_experts", grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"}, **BIASED)
def gpt_oss_experts_batched(
    x: Any,
    chosen: Any,
    weights: Any,
    w_gate: Any,
    w_up: Any,
    w_down: Any,
    b_gate: Any,
    b_up: Any,
    b_down: Any,
    *,
    alpha: float = 1.0,
    limit: float | None = None,
) -> Any:
    """batched_mm_experts_forward of transformers.integrations.moe with the experts of gpt-oss."""
    matrices, biases = (w_gate, w_up, w_down), (b_gate, b_up, b_down)
    return with_biases("batched_mm", x, chosen, weights, matrices, biases, alpha, limit)


@adapter(
    "routed_experts",
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    limits={"dim": WHOLE, "hidden": WHOLE},
    **BIASED,
)
def gpt_oss_experts_grouped(
    x: Any,
    chosen: Any,
    weights: Any,
    w_gate: Any,
    w_up: Any,
    w_down: Any,
    b_gate: Any,
    b_up: Any,
    b_down: Any,
    *,
    alpha: float = 1.0,
    limit: float | None = None,
) -> Any:
    """grouped_mm_experts_forward of transformers.integrations.moe with the experts of gpt-oss."""
    matrices, biases = (w_gate, w_up, w_down), (b_gate, b_up, b_down)
    return with_biases("grouped_mm", x, chosen, weights, matrices, biases, alpha, limit)
