"""Right, but different, as in `controls_attention`: products with codes in groups."""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter("quantized_matmul", dtypes=("float32", "bfloat16", "float16"))
def control_matmul_of_weights(
    x: Any,
    codes: Any,
    scales: Any,
    offsets: Any,
    *,
    bits: int = 4,
    group_size: int = 32,
    transpose_weights: bool = True,
) -> Any:
    """Weights first, in single precision."""
    grouped = codes.float().unflatten(1, (-1, group_size))
    weights = (grouped * scales.float()[..., None] + offsets.float()[..., None]).flatten(1)
    return (x.float() @ (weights.T if transpose_weights else weights)).to(x.dtype)


@adapter("quantized_matmul", dtypes=("float32", "bfloat16", "float16"))
def control_matmul_of_codes(
    x: Any,
    codes: Any,
    scales: Any,
    offsets: Any,
    *,
    bits: int = 4,
    group_size: int = 32,
    transpose_weights: bool = True,
) -> Any:
    """Products with codes and sums of inputs group by group, to which scales and offsets are applied."""
    import torch

    inputs, grouped = x.float(), codes.float().unflatten(1, (-1, group_size))
    if transpose_weights:
        parts = inputs.unflatten(1, (-1, group_size))
        out = torch.zeros(len(x), len(codes))
        for g in range(scales.shape[1]):
            out += parts[:, g] @ grouped[:, g].T * scales[:, g].float()
            out += parts[:, g].sum(1, keepdim=True) * offsets[:, g].float()
        return out.to(x.dtype)
    blocks = []
    for g in range(scales.shape[1]):
        own = (inputs * scales[:, g].float()) @ grouped[:, g]
        blocks.append(own + (inputs @ offsets[:, g].float())[:, None])
    return torch.cat(blocks, 1).to(x.dtype)


@adapter("quantized_matmul", framework="numpy", dtypes=("float64", "float32"))
def control_matmul_by_outputs(
    x: Any,
    codes: Any,
    scales: Any,
    offsets: Any,
    *,
    bits: int = 4,
    group_size: int = 32,
    transpose_weights: bool = True,
) -> Any:
    """Output after output in double precision, with zero points in place of offsets."""
    import numpy as np

    s, o = (np.repeat(t.astype(np.float64), group_size, 1) for t in (scales, offsets))
    zero = np.divide(-o, s, out=np.zeros_like(o), where=s != 0)
    weights = np.where(s == 0, o, s * (codes - zero))
    weights = weights if transpose_weights else weights.T
    return np.stack([(x * row).sum(1) for row in weights], 1).astype(x.dtype)
