"""The gradients of PyTorch's FlexAttention and of its logsumexp together, by its automatic differentiation.

Documentation: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
What is differentiated is the operator beneath, as in `flex_blocks_gradient`; its logsumexp is to base two, and the
function multiplies it by the natural logarithm of two.
"""

from __future__ import annotations

import math
from typing import Any

from .. import adapter
from .flex_attention import CONVENTIONS, DTYPES, hiding, scoring
from .gradients import differentiated

GRADE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}


@adapter("attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS, grade=GRADE, package="torch")
def torch_flex_lse_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    d_lse: Any,
    causal: bool = False,
    mask: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Gradients of torch.ops.higher_order.flex_attention with cotangents of both outputs, not compiled."""
    from torch._higher_order_ops.flex_attention import flex_attention
    from torch.nn.attention.flex_attention import _create_empty_block_mask, create_block_mask

    batch, heads, q_len, k_len = shape = (*q.shape[:3], k.shape[2])
    hides = hiding(q_len, k_len, causal, None if mask is None else mask.expand(shape), window_left, window_right)
    if hides is None:
        blocks = _create_empty_block_mask(q, k)
    else:
        blocks = create_block_mask(hides, batch, heads, q_len, k_len, device=str(q.device))
    score = scoring(None, softcap) or (lambda score, b, h, i, j: score)
    factor = q.shape[3] ** -0.5 if scale is None else scale

    def attend(q: Any, k: Any, v: Any) -> dict[str, Any]:
        out, lse, _ = flex_attention(q, k, v, score, blocks.as_tuple(), factor, {})
        return {"out": out, "lse": lse * math.log(2)}

    return differentiated(attend, d_out, further={"lse": d_lse}, q=q, k=k, v=v)
