"""Right, but different: scaled and masked softmax as kernels compute it, and its gradient; no law may accuse them."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .norm_gradients import DTYPES, NAIVE, wider

BOTTOM, TOP = {"causal_alignment": "bottom_right"}, {"causal_alignment": "top_left"}


def hidden(x: Any, mask: Any, causal: bool, first: int) -> Any:
    """Where a key is hidden; the first query sees the keys up to `first`."""
    import torch

    future = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1 + first)
    return (future if causal else torch.zeros_like(future)) | (False if mask is None else ~mask)


def slopes(heads: int, max_bias: float) -> list[float]:
    """The slope of each head, by its number as ggml has it; one where the largest exponent is zero."""
    below = 1 << (heads.bit_length() - 1)
    first, second = 2.0 ** (-max_bias / below), 2.0 ** (-max_bias / 2 / below)
    return [first ** (h + 1) if h < below else second ** (2 * (h - below) + 1) for h in range(heads)]


def added(row: Any, bias: Any, max_bias: float) -> Any:
    """The scaled scores with the bias of each head."""
    if bias is None:
        return row
    return row + row.new_tensor(slopes(row.shape[1], max_bias))[:, None, None] * bias


@adapter("masked_softmax", dtypes=DTYPES, conventions={"empty_row": "mean_value", **BOTTOM})
def control_masked_by_filling(
    x: Any, *, mask: Any = None, bias: Any = None, scale: float = 1.0, causal: bool = False, max_bias: float = 0.0
) -> Any:
    """Hidden scores are filled with a large negative number."""
    row = added(wider(x) * scale, bias, max_bias)
    return row.masked_fill(hidden(x, mask, causal, x.shape[-1] - x.shape[-2]), -1e30).softmax(-1).to(x.dtype)


@adapter("masked_softmax", dtypes=("float32", "bfloat16", "float16"), conventions={"empty_row": "zeros", **TOP})
def control_masked_by_running_maxima(
    x: Any, *, mask: Any = None, bias: Any = None, scale: float = 1.0, causal: bool = False, max_bias: float = 0.0
) -> Any:
    """Block by block of keys with a running maximum and sum; a causal row ends where its future begins."""
    import torch

    row = added(x.double() * scale, bias, max_bias)
    row = row.masked_fill(hidden(x, mask, causal, 0), -torch.inf)
    largest, total = torch.full_like(row[..., :1], -torch.inf), torch.zeros_like(row[..., :1])
    for part in row.split(16, -1):
        new = torch.maximum(largest, part.amax(-1, keepdim=True))
        finite = torch.where(new > -torch.inf, new, 0.0)
        total = total * (largest - finite).exp() + (part - finite).exp().sum(-1, keepdim=True)
        largest = new
    whole = (row - torch.where(total > 0, largest + total.log(), 0.0)).exp()
    return whole.to(x.dtype)


@adapter("masked_softmax", dtypes=("bfloat16", "float16"), conventions={"empty_row": "nans", **BOTTOM}, grade=NAIVE)
def control_masked_in_the_dtype(
    x: Any, *, mask: Any = None, bias: Any = None, scale: float = 1.0, causal: bool = False, max_bias: float = 0.0
) -> Any:
    """Everything in the dtype of the inputs; a row that is hidden whole is zero divided by zero."""
    import torch

    row = added(x * scale, bias, max_bias)
    row = row.masked_fill(hidden(x, mask, causal, x.shape[-1] - x.shape[-2]), -torch.inf)
    terms = (row - row.amax(-1, keepdim=True)).exp()
    return terms / terms.sum(-1, keepdim=True)


@adapter(
    "masked_softmax", framework="numpy", dtypes=("float64", "float32"), conventions={"empty_row": "zeros", **BOTTOM}
)
def control_masked_head_by_head(
    x: Any, *, mask: Any = None, bias: Any = None, scale: float = 1.0, causal: bool = False, max_bias: float = 0.0
) -> Any:
    """One head of one item at a time; the seen exponentials are normalised by a product with a reciprocal."""
    import numpy as np

    batch, heads, q_len, k_len = x.shape
    of_heads = slopes(heads, max_bias)
    seen = np.broadcast_to(True if mask is None else mask, x.shape)
    if causal:
        seen = seen & np.tri(q_len, k_len, k_len - q_len, dtype=bool)
    extra = np.broadcast_to(np.zeros((), x.dtype) if bias is None else bias, x.shape)
    out = np.zeros_like(x)
    for b, h in np.ndindex(batch, heads):
        row = scale * x[b, h].astype(np.float64) + of_heads[h] * extra[b, h].astype(np.float64)
        row = np.where(seen[b, h], row, -np.inf)
        largest = row.max(-1, keepdims=True, initial=-np.inf)
        terms = np.exp(row - np.where(largest > -np.inf, largest, 0.0))
        total = terms.sum(-1, keepdims=True)
        out[b, h] = terms * (1 / np.where(total > 0, total, 1.0))
    return out


@adapter("masked_softmax_gradient", dtypes=DTYPES, conventions={"empty_row": "zeros", **BOTTOM})
def control_masked_shares_stored(
    x: Any,
    d_out: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    scale: float = 1.0,
    causal: bool = False,
    max_bias: float = 0.0,
) -> Any:
    """From shares stored in the dtype, of which those of hidden keys are zero; the scale comes last."""
    away = hidden(x, mask, causal, x.shape[-1] - x.shape[-2])
    row = added(wider(x) * scale, bias, max_bias).masked_fill(away, -1e30)
    p, d = wider(row.softmax(-1).to(x.dtype)).masked_fill(away, 0.0), wider(d_out)
    return (scale * (p * d - p * (p * d).sum(-1, keepdim=True))).to(x.dtype)


@adapter(
    "masked_softmax_gradient",
    dtypes=("float32", "bfloat16", "float16"),
    conventions={"empty_row": "equal_shares", **TOP},
)
def control_masked_sums_of_blocks(
    x: Any,
    d_out: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    scale: float = 1.0,
    causal: bool = False,
    max_bias: float = 0.0,
) -> Any:
    """Sums of blocks of 16 keys in double precision, from equal shares where a query sees none."""
    row = added(x.double() * scale, bias, max_bias).masked_fill(hidden(x, mask, causal, 0), -1e300)
    p, d = row.softmax(-1), d_out.double()
    middle = sum(part.sum(-1, keepdim=True) for part in (p * d).split(16, -1))
    return ((d - middle) * (scale * p)).to(x.dtype)
