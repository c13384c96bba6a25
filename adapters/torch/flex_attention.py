"""FlexAttention of PyTorch, as it is and compiled.

Documentation: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
What hides keys is a `mask_mod`, and what is added to the scores a `score_mod`; the causal mask and the window are
written as the documentation writes them, and stand where this file puts them: the causal one at the last key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}

Modifier = Callable[..., Any]


def hiding(q_len: int, k_len: int, causal: bool, mask: Any, left: int | None, right: int | None) -> Modifier | None:
    """A `mask_mod` of what is asked for, or none; `mask` has four whole axes."""
    from torch.nn.attention.flex_attention import and_masks

    ahead = k_len - q_len
    parts: list[Modifier] = []
    if causal:
        parts.append(lambda b, h, i, j: i + ahead >= j)
    if left is not None:
        parts.append(lambda b, h, i, j: i + ahead - j <= left)
    if right is not None:
        parts.append(lambda b, h, i, j: j - (i + ahead) <= right)
    if mask is not None:
        parts.append(lambda b, h, i, j: mask[b, h, i, j])
    return and_masks(*parts) if parts else None


def scoring(bias: Any, softcap: float | None) -> Modifier | None:
    """A `score_mod` of what is asked for, or none; `bias` has four whole axes."""
    import torch

    def capped(score: Any) -> Any:
        return score if softcap is None else softcap * torch.tanh(score / softcap)

    if bias is not None:
        return lambda score, b, h, i, j: capped(score) + bias[b, h, i, j]
    return None if softcap is None else lambda score, b, h, i, j: capped(score)


def attention(
    attend: Any,
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    mask: Any,
    bias: Any,
    scale: float | None,
    window: tuple[int | None, int | None],
    softcap: float | None,
    lse: bool = True,
) -> Any:
    """One call, with the logsumexps; compiled for a CPU there are none."""
    from torch.nn.attention.flex_attention import AuxRequest, create_block_mask

    batch, heads, q_len, k_len = shape = (*q.shape[:3], k.shape[2])
    mask, bias = (None if x is None else x.expand(shape) for x in (mask, bias))
    hides = hiding(q_len, k_len, causal, mask, *window)
    blocks = None if hides is None else create_block_mask(hides, batch, heads, q_len, k_len, device=str(q.device))
    grouped = q.shape[1] != k.shape[1]
    if not lse:
        return attend(q, k, v, scoring(bias, softcap), blocks, scale, grouped)
    out, aux = attend(q, k, v, scoring(bias, softcap), blocks, scale, grouped, return_aux=AuxRequest(lse=True))
    return {"out": out, "lse": aux.lse}


@functools.cache
def compiled() -> Any:
    """The function, compiled again for shapes that it has not seen."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


@adapter("attention", dtypes=DTYPES, conventions=CONVENTIONS, compiled=True, slow=True, package="torch")
def torch_flex(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """torch.nn.attention.flex_attention, not compiled."""
    from torch.nn.attention.flex_attention import flex_attention

    return attention(flex_attention, q, k, v, causal, mask, bias, scale, (window_left, window_right), softcap)


@adapter("attention", dtypes=DTYPES[:3], conventions=CONVENTIONS, compiled=True, slow=True, package="torch")
def torch_flex_compiled(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """torch.nn.attention.flex_attention under torch.compile."""
    lse, window = q.is_cuda, (window_left, window_right)
    return attention(compiled(), q, k, v, causal, mask, bias, scale, window, softcap, lse)
