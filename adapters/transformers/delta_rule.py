"""The gated delta rule as models of Hugging Face transformers compute it where no kernel is installed.

Source: transformers/models/qwen3_next/modeling_qwen3_next.py, torch_recurrent_gated_delta_rule (token by token) and
torch_chunk_gated_delta_rule (in chunks of 64 tokens).
Arithmetic and states are in float32, whatever the dtype is; queries are scaled by one over the root of the key size.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {
    "layout": "bshd",
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "transformers",
    "extra": "transformers",
}


def computed(name: str, q: Any, k: Any, v: Any, beta: Any, gate: Any, state: Any, normalise: bool) -> Any:
    """The outputs of one of the functions; without a gate, that of a gate of zeros."""
    import torch
    from transformers.models.qwen3_next import modeling_qwen3_next

    out, left = getattr(modeling_qwen3_next, name)(
        q,
        k,
        v,
        g=torch.zeros_like(beta) if gate is None else gate,
        beta=beta,
        initial_state=state,
        output_final_state=True,
        use_qk_l2norm_in_kernel=normalise,
    )
    return {"out": out, "final_state": left}


@adapter("gated_delta_rule", **DECLARED)
def qwen3_next_recurrent(
    q: Any, k: Any, v: Any, beta: Any, gate: Any = None, state: Any = None, *, normalise: bool = False
) -> Any:
    """torch_recurrent_gated_delta_rule of transformers.models.qwen3_next."""
    return computed("torch_recurrent_gated_delta_rule", q, k, v, beta, gate, state, normalise)


@adapter("gated_delta_rule", **DECLARED)
def qwen3_next_chunked(
    q: Any, k: Any, v: Any, beta: Any, gate: Any = None, state: Any = None, *, normalise: bool = False
) -> Any:
    """torch_chunk_gated_delta_rule of transformers.models.qwen3_next."""
    return computed("torch_chunk_gated_delta_rule", q, k, v, beta, gate, state, normalise)
