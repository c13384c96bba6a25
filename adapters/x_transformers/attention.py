"""The attention of x-transformers, by elementary operations and by scaled dot-product attention.

Source: https://github.com/lucidrains/x-transformers (x_transformers/attend.py, Attend).
Query heads take turns over the heads of keys and values, the causal mask is aligned at the last key, and a query from
which a mask hides everything returns zeros.
Scores, or queries times a given scale, are stored in the dtype of the inputs; the softmax is taken in float32.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
GRADES = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"}
CONVENTIONS = {
    "causal_alignment": "bottom_right",
    "empty_row": "zeros",
    "empty_bias_row": "nan_row",
    "grouping": "tiled",
}
declared = functools.partial(adapter, dtypes=DTYPES, package="x_transformers", extra="x-transformers")


@functools.cache
def module(**options: Any) -> Any:
    """The module with some options."""
    from x_transformers.attend import Attend

    return Attend(**options).eval()


def attention(attend: Any, q: Any, k: Any, v: Any, mask: Any, bias: Any) -> Any:
    """One call; a mask has four axes."""
    whole = None if mask is None else mask.reshape(*(1,) * (4 - mask.ndim), *mask.shape)
    out, _ = attend(q, k, v, mask=whole, attn_bias=bias)
    return out


@declared("attention", conventions=CONVENTIONS, grade=GRADES)
def x_transformers_attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """Attend of x-transformers, composed of elementary operations."""
    return attention(module(heads=q.shape[1], causal=causal, scale=scale), q, k, v, mask, bias)


@declared("attention", conventions=CONVENTIONS, grade=GRADES)
def x_transformers_softclamp(
    q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None, softcap: float | None = None
) -> Any:
    """Attend of x-transformers with softclamp_logits."""
    clamp = {} if softcap is None else {"softclamp_logits": True, "logit_softclamp_value": softcap}
    return attention(module(heads=q.shape[1], **clamp), q, k, v, mask, bias)


@declared("attention", conventions=CONVENTIONS | {"empty_bias_row": "zero_row"}, grade=GRADES | {"float64": "fp64"})
def x_transformers_attention_flash(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """Attend of x-transformers with flash, by scaled dot-product attention."""
    return attention(module(heads=q.shape[1], causal=causal, scale=scale, flash=True), q, k, v, mask, bias)
