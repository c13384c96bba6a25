"""The backward passes of kernels of flash-linear-attention, which are written in Triton.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops/gated_delta_rule/chunk.py, fla/modules/conv)
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..torch.gradients import differentiated
from ..torch.packed import convolvable
from ..triton.interpreter import declared
from .kernels import DECLARED, kernel, stepped
from .packed import convolved


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


@declared(
    "packed_convolution_gradient",
    dtypes=DECLARED["dtypes"],
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},  # what goes through SiLU is stored for the way back
    package="fla.modules",
)
def fla_packed_convolution_gradient(
    x: Any,
    weight: Any,
    lens: Any,
    d_out: Any,
    bias: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    silu: bool = False,
) -> Any:
    """The backward pass of causal_conv1d with running sums of lengths."""
    convolvable(x, weight, lens, state)
    if d_out.shape != x.shape or (d_final_state is not None and len(d_final_state) != len(lens)):
        raise ValueError("every token has an output, and every item a state")
    out, asked = partial(convolved, lens=lens, silu=silu), {"final_state": d_final_state}
    return differentiated(out, d_out, further=asked, x=x, weight=weight, bias=bias, state=state)
