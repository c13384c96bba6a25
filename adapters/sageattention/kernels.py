"""SageAttention, whose scores are products of 8-bit integers, in Triton.

Documentation: https://github.com/thu-ml/SageAttention (sageattn), arXiv:2410.02367
Keys have their mean over the tokens taken off; blocks of 128 queries and of 64 keys share a scale. Weights and values
are multiplied in float16, and added up in it.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..triton.interpreter import declared


@declared(
    "attention",
    conventions={"causal_alignment": "top_left", "grouping": "block"},
    package="sageattention",
    dtypes=("float32", "bfloat16", "float16"),
    limits={"head_dim": (64, 96, 128)},
    requires=("value_dim == head_dim", "not causal or q_len == k_len"),
    grade="int8_half",
)
def sageattn(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """The function sageattn, with keys smoothed."""
    kernel: Any = importlib.import_module("sageattention").sageattn
    return kernel(q, k, v, is_causal=causal, sm_scale=scale)
