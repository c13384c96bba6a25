"""The backward passes of kernels of flash-linear-attention, which are written in Triton.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops/gated_delta_rule/chunk.py, fla/modules/conv)
"""

from __future__ import annotations

from typing import Any

from ..torch.gradients import differentiated
from .kernels import kernel, stepped


@kernel("gated_delta_rule_gradient", requires="not single(gate)")
def fla_chunked_gated_delta_rule_gradient(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> Any:
    """The backward pass of chunk_gated_delta_rule."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    if d_out.shape != v.shape:
        raise ValueError("outputs and values differ")
    if d_final_state is not None and d_final_state.shape[2:] != (k.shape[3], v.shape[3]):
        raise ValueError("the gradient of the final state is like the state")

    def out(gate: Any, **inputs: Any) -> Any:
        return stepped(chunk_gated_delta_rule, g=gate, scale=scale, use_qk_l2norm_in_kernel=normalise, **inputs)

    asked = {"final_state": d_final_state}
    return differentiated(out, d_out, further=asked, q=q, k=k, v=v, beta=beta, gate=gate, state=state)
