"""The gradients of PyTorch's FlexAttention over blocks of any two sizes, by its automatic differentiation.

Documentation: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
What is differentiated is the operator beneath, which the function calls where it is not compiled: the function itself
refuses gradients on the CPU, for want of a compiled kernel, and the operator has them on every device.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .flex_attention import CONVENTIONS, DTYPES
from .flex_blocks import mask_of_blocks
from .gradients import differentiated


@adapter(
    "block_sparse_attention_gradient",
    dtypes=DTYPES,
    conventions=CONVENTIONS,
    package="torch",
)
def torch_flex_blocks_gradient(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    d_out: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Gradients of torch.ops.higher_order.flex_attention with a mask of blocks, not compiled."""
    from torch._higher_order_ops.flex_attention import flex_attention

    mask = mask_of_blocks(q, k, blocks, (q_block_size, k_block_size), causal, (window_left, window_right)).as_tuple()
    factor = q.shape[3] ** -0.5 if scale is None else scale

    def attend(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, lambda score, b, h, i, j: score, mask, factor, {})[0]

    return differentiated(attend, d_out, q=q, k=k, v=v)
