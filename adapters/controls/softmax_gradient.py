"""Right, but different: gradients of softmax and of its logarithm as kernels compute them; no law may accuse them."""

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


@adapter("log_softmax_gradient", dtypes=DTYPES)
def control_logarithms_stored(x: Any, d_out: Any) -> Any:
    """From logarithms stored in the dtype, as an output that was kept."""
    p, d = wider(wider(x).log_softmax(-1).to(x.dtype)).exp(), wider(d_out)
    return (d - p * d.sum(-1, keepdim=True)).to(x.dtype)


@adapter("log_softmax_gradient", dtypes=("float32", "bfloat16", "float16"))
def control_cotangents_summed_in_blocks(x: Any, d_out: Any) -> Any:
    """The cotangents summed block by block from the last one on, with shares from the logsumexp."""
    row, d = wider(x), wider(d_out)
    total = sum(part.sum(-1, keepdim=True) for part in reversed(d.split(16, -1)))
    return (d - (row - row.logsumexp(-1, keepdim=True)).exp() * total).to(x.dtype)


@adapter("log_softmax_gradient", dtypes=("bfloat16", "float16"), grade=NAIVE)
def control_log_softmax_gradient_in_the_dtype(x: Any, d_out: Any) -> Any:
    """Everything in the dtype of the inputs, as the formula stands."""
    terms = (x - x.amax(-1, keepdim=True)).exp()
    return d_out - terms / terms.sum(-1, keepdim=True) * d_out.sum(-1, keepdim=True)


@adapter("log_softmax_gradient", dtypes=("float32", "bfloat16", "float16"))
def control_log_softmax_gradient_float64(x: Any, d_out: Any) -> Any:
    """By the Jacobian in double precision, rounded once."""
    import torch

    p, d = x.double().softmax(-1), d_out.double()
    if p.shape[-1] > 200:  # the Jacobian of a long row is large
        return (d - p * d.sum(-1, keepdim=True)).to(x.dtype)
    jacobian = torch.eye(p.shape[-1], dtype=p.dtype) - p[..., None, :].expand(*p.shape, p.shape[-1])
    return (d[..., None, :] @ jacobian)[..., 0, :].to(x.dtype)
