"""The causal linear attention of performer-pytorch that needs no kernel.

Source: https://github.com/lucidrains/performer-pytorch (causal_linear_attention_noncuda): features that are given, in
chunks, the sums of all tokens of a chunk at once.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "linear_attention",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    fixed={"feature_map": "identity", "causal": True, "normalise": True, "scale": 1.0},
    conventions={"eps_place": "to_keys"},
    package="performer_pytorch",
    extra="performer",
)
def performer_causal(q: Any, k: Any, v: Any, *, eps: float = 1e-6) -> Any:
    """causal_linear_attention_noncuda of performer_pytorch."""
    from performer_pytorch.performer_pytorch import causal_linear_attention_noncuda

    return causal_linear_attention_noncuda(q, k, v, eps=eps)
