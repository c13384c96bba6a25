"""Queries and keys that vLLM normalises head by head and turns by positions of several axes in one step, in Triton.

Source: https://github.com/vllm-project/vllm (vllm/model_executor/layers/fused_qk_norm_rope.py)
Each head of the queries comes with its gate behind it, which is copied. What is normalised is stored in the dtype
before it is turned; cosines and sines are those of a table, which the caller computes.
"""

from __future__ import annotations

from typing import Any

from ..torch.rotary import table
from ..triton.interpreter import declared
from .modules import layer


@declared(
    "qk_norm_mrope",
    dtypes=("bfloat16", "float16"),
    layout="bshd",
    package="vllm",
    requires="axes == 3",
    fixed={"interleaved": False, "striped": True},
    conventions={"weight_form": "plain"},
)
def vllm_qk_norm_mrope(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    sections: Any,
    striped: bool = True,
    eps: float = 1e-6,
    base: float = 10000.0,
    rotary_dim: int | None = None,
) -> Any:
    """fused_qk_rmsnorm_rope_gate."""
    import torch

    (batch, length, heads, dim), kv_heads = q.shape, k.shape[2]
    tokens, width = batch * length, rotary_dim or dim
    if not q_weight.shape == k_weight.shape == q.shape[3:] == k.shape[3:] or k.shape[:2] != q.shape[:2]:
        raise ValueError("every channel has a weight, and every token queries and keys")
    gated = torch.cat((q, q.flip(-1)), 3)
    turned, keys, gate = layer("fused_qk_norm_rope").fused_qk_rmsnorm_rope_gate(
        gated.view(tokens, -1),
        k.reshape(tokens, -1).contiguous(),
        q_weight.contiguous(),
        k_weight.contiguous(),
        table(positions, width, base),
        positions.reshape(3, tokens).contiguous(),
        eps,
        heads,
        kv_heads,
        dim,
        width,
        mrope_section=[int(n) for n in sections],
    )
    if not torch.equal(gate.view(q.shape), q.flip(-1)):
        raise RuntimeError("the gate is not that of the queries")
    return {"q_out": turned.view(q.shape), "k_out": keys.view(k.shape)}
