"""The filters of logits that x-transformers samples with.

Source: x_transformers/autoregressive_wrapper.py (top_k, top_p, min_p).
Both take arrays of two axes; top-k keeps exactly k entries, and which of equal ones is torch.topk's business.
The top-p filter keeps an entry as long as the sum before it does not exceed p.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
GRADES = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"}


@adapter("top_k_filter", dtypes=DTYPES, conventions={"ties": "open"}, package="x_transformers", extra="x-transformers")
def x_transformers_top_k(logits: Any, *, k: int) -> Any:
    """top_k of x_transformers.autoregressive_wrapper."""
    from x_transformers.autoregressive_wrapper import top_k

    return top_k(logits.reshape(-1, logits.shape[-1]), k=k).reshape(logits.shape)


@adapter(
    "top_p_filter",
    dtypes=DTYPES,
    conventions={"top_p_boundary": "exceeds"},
    grade=GRADES,
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_top_p(logits: Any, *, p: float) -> Any:
    """top_p of x_transformers.autoregressive_wrapper."""
    from x_transformers.autoregressive_wrapper import top_p

    return top_p(logits.reshape(-1, logits.shape[-1]), thres=p).reshape(logits.shape)


@adapter("min_p_filter", dtypes=DTYPES, grade=GRADES, package="x_transformers", extra="x-transformers")
def x_transformers_min_p(logits: Any, *, p: float) -> Any:
    """min_p of x_transformers.autoregressive_wrapper."""
    from x_transformers.autoregressive_wrapper import min_p

    return min_p(logits, min_p=p)
