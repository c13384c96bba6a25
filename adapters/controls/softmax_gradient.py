"""Right, but different: gradients of softmax as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .norm_gradients import DTYPES, NAIVE, wider

ZEROS, NANS = {"empty_row": "zeros"}, {"empty_row": "nans"}


@adapter("softmax_gradient", dtypes=DTYPES, conventions=NANS)
def control_shares_stored(x: Any, d_out: Any) -> Any:
    """From shares stored in the dtype, as an output that was kept, and by the cotangents less their weighed mean."""
    p, d = wider(wider(x).softmax(-1).to(x.dtype)), wider(d_out)
    return (p * (d - (p * d).sum(-1, keepdim=True))).to(x.dtype)


@adapter("softmax_gradient", dtypes=("float32", "bfloat16", "float16"), conventions=NANS)
def control_products_first(x: Any, d_out: Any) -> Any:
    """The products of share and cotangent first, block by block with the shares from their logsumexp."""
    import torch

    row = wider(x)
    lse = row.logsumexp(-1, keepdim=True)
    parts = [(part - lse).exp() for part in row.split(16, -1)]
    products = [p * wider(d) for p, d in zip(parts, d_out.split(16, -1), strict=True)]
    middle = sum(product.sum(-1, keepdim=True) for product in products)
    whole = [product - p * middle for product, p in zip(products, parts, strict=True)]
    return torch.cat(whole, -1).to(x.dtype)


@adapter("softmax_gradient", dtypes=("bfloat16", "float16"), conventions=NANS, grade=NAIVE)
def control_softmax_gradient_in_the_dtype(x: Any, d_out: Any) -> Any:
    """Everything in the dtype of the inputs, as the formula stands."""
    terms = (x - x.amax(-1, keepdim=True)).exp()
    p = terms / terms.sum(-1, keepdim=True)
    return p * (d_out - (p * d_out).sum(-1, keepdim=True))


@adapter("softmax_gradient", dtypes=("float32", "bfloat16", "float16"), conventions=ZEROS)
def control_softmax_gradient_float64(x: Any, d_out: Any) -> Any:
    """By the Jacobian in double precision, rounded once; a row of minus infinities gives zeros."""
    import torch

    p, d = x.double().softmax(-1), d_out.double()
    p = torch.where((x == -torch.inf).all(-1, keepdim=True), 0.0, p)
    if p.shape[-1] > 200:  # the Jacobian of a long row is large
        return (p * (d - (p * d).sum(-1, keepdim=True))).to(x.dtype)
    jacobian = torch.diag_embed(p) - p[..., :, None] * p[..., None, :]
    return (jacobian @ d[..., None])[..., 0].to(x.dtype)
