"""The gradients of the fused attention of MLX, by mlx.core.vjp.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.scaled_dot_product_attention.html
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .attention import GRADES
from .gradients import pulled_back


@adapter(
    "attention_gradient",
    requires=("not causal or single(mask) and single(bias)", "single(mask) or single(bias)"),
    framework="mlx",
    dtypes=("float32", "bfloat16", "float16"),
    conventions={"causal_alignment": "bottom_right", "grouping": "block"},
    grade=GRADES,
    package="mlx.core",
    extra="mlx",
)
def mlx_attention_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    scale: float | None = None,
) -> Any:
    """mlx.core.vjp of mlx.core.fast.scaled_dot_product_attention."""
    import mlx.core as mx

    if causal + (mask is not None) + (bias is not None) > 1:
        raise Unsupported("a mask is boolean, additive or causal")
    hides = "causal" if causal else mask
    inputs = {"q": q, "k": k, "v": v, "bias": bias, "sink": sink}
    given = {name: x for name, x in inputs.items() if x is not None}

    def attend(*leaves: Any) -> Any:
        named = dict(zip(given, leaves, strict=True))
        return mx.fast.scaled_dot_product_attention(
            named["q"],
            named["k"],
            named["v"],
            scale=q.shape[-1] ** -0.5 if scale is None else scale,
            mask=named.get("bias", hides),
            sinks=named.get("sink"),
        )

    return pulled_back(attend, d_out, **given)
