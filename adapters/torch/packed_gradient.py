"""The gradients of PyTorch's attention over items of different lengths, by its automatic differentiation.

Documentation: https://docs.pytorch.org/docs/stable/nested.html and
https://docs.pytorch.org/docs/stable/nn.attention.varlen.html
What is differentiated are the calls of `torch_nested_jagged`, `torch_nested_strided` and `torch_varlen`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import adapter
from .gradients import differentiated
from .packed import DTYPES, NAIVE, TOP_LEFT, torch_nested_jagged, torch_nested_strided, torch_varlen


@adapter(
    "packed_attention_gradient",
    requires="heads == kv_heads",
    dtypes=DTYPES,
    conventions=TOP_LEFT,
    grade=NAIVE,
    package="torch",
)
def torch_nested_jagged_gradient(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Gradients of scaled_dot_product_attention of nested tensors in the jagged layout."""
    attend = partial(torch_nested_jagged, q_lens=q_lens, k_lens=k_lens, causal=causal, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v)


@adapter(
    "packed_attention_gradient",
    requires="heads == kv_heads",
    dtypes=DTYPES,
    conventions=TOP_LEFT,
    grade=NAIVE,
    package="torch",
)
def torch_nested_strided_gradient(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Gradients of scaled_dot_product_attention of nested tensors in the strided layout."""
    attend = partial(torch_nested_strided, q_lens=q_lens, k_lens=k_lens, causal=causal, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v)


@adapter(
    "packed_attention_gradient",
    requires=("value_dim == head_dim", "not causal or window_right == none"),
    dtypes=("float16", "bfloat16"),
    conventions={"causal_alignment": "bottom_right", "grouping": "block"},
    devices=("cuda",),
    package="torch",
)
def torch_varlen_gradient(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """Gradients of torch.nn.attention.varlen.varlen_attn."""
    more = {"causal": causal, "scale": scale, "window_left": window_left, "window_right": window_right}
    attend = partial(torch_varlen, q_lens=q_lens, k_lens=k_lens, **more)
    return differentiated(attend, d_out, q=q, k=k, v=v)
