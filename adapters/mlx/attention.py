"""The fused attention of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.scaled_dot_product_attention.html
A mask is boolean, additive or the word causal, one of them alone; the causal one is aligned at the last key.
Softmax is computed in single precision, whatever the dtype is; the rest is stored in the dtype of the inputs.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter

GRADES = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"}


@adapter(
    "attention",
    requires=("not causal or single(mask) and single(bias)", "single(mask) or single(bias)"),
    framework="mlx",
    dtypes=("float32", "bfloat16", "float16"),
    conventions={"causal_alignment": "bottom_right", "grouping": "block"},
    grade=GRADES,
    package="mlx.core",
    extra="mlx",
)
def mlx_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    scale: float | None = None,
) -> Any:
    """mlx.core.fast.scaled_dot_product_attention."""
    import mlx.core as mx

    if causal + (mask is not None) + (bias is not None) > 1:
        raise Unsupported("a mask is boolean, additive or causal")
    added = mask if bias is None else bias
    return mx.fast.scaled_dot_product_attention(
        q,
        k,
        v,
        scale=q.shape[-1] ** -0.5 if scale is None else scale,
        mask="causal" if causal else added,
        sinks=sink,
    )
