"""The attention of tinygrad, by its interpreter in Python.

Documentation: https://docs.tinygrad.org/tensor/ops/#tinygrad.Tensor.scaled_dot_product_attention
A mask is boolean or additive and goes without the causal flag; the scores are at least of single precision, and the
softmax is in the dtype of the inputs.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter


@adapter(
    "attention",
    framework="tinygrad",
    dtypes=("float32", "float16", "float64"),
    conventions={"causal_alignment": "top_left", "empty_row": "nans", "grouping": "block"},
    grade={"float16": "fp16_naive"},
    compiled=True,
    slow=True,
    package="tinygrad",
    extra="tinygrad",
)
def tinygrad_attention(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None) -> Any:
    """tinygrad.Tensor.scaled_dot_product_attention on the device PYTHON, unless DEV names another."""
    if causal + (mask is not None) + (bias is not None) > 1:
        raise Unsupported("a mask is boolean, additive or causal")
    added = mask if bias is None else bias
    return q.scaled_dot_product_attention(k, v, attn_mask=added, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
