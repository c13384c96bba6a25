"""The gradients of the attention of x-transformers, by elementary operations and by scaled dot-product attention.

Source: https://github.com/lucidrains/x-transformers (x_transformers/attend.py, Attend).
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import (
    DTYPES,
    GRADES,
    x_transformers_attention,
    x_transformers_attention_flash,
    x_transformers_softclamp,
)

CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "tiled"}
declared = functools.partial(
    adapter, dtypes=DTYPES, conventions=CONVENTIONS, package="x_transformers", extra="x-transformers"
)


@declared("attention_gradient", grade=GRADES)
def x_transformers_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of Attend of x-transformers, composed of elementary operations."""
    attend = partial(x_transformers_attention, causal=causal, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@declared("attention_gradient", grade=GRADES)
def x_transformers_softclamp_gradient(
    q: Any, k: Any, v: Any, d_out: Any, *, mask: Any = None, bias: Any = None, softcap: float | None = None
) -> Any:
    """Gradients of Attend of x-transformers with softclamp_logits."""
    attend = partial(x_transformers_softclamp, mask=mask, softcap=softcap)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)


@declared("attention_gradient", grade=GRADES | {"float64": "fp64"})
def x_transformers_flash_gradient(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of Attend of x-transformers with flash, by scaled dot-product attention."""
    attend = partial(x_transformers_attention_flash, causal=causal, mask=mask, scale=scale)
    return differentiated(attend, d_out, q=q, k=k, v=v, bias=bias)
