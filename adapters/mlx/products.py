"""Products with quantized matrices in MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantized_matmul.html
Codes are packed into integers of 32 bits, the first one in the low bits.
On the CPU, sums of float16 and bfloat16 are kept in these formats, so that float32 alone is claimed.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "quantized_matmul",
    framework="mlx",
    dtypes=("float32",),
    package="mlx",
    extra="mlx",
)
def mlx_quantized_matmul(
    x: Any,
    codes: Any,
    scales: Any,
    offsets: Any,
    *,
    bits: int = 4,
    group_size: int = 32,
    transpose_weights: bool = True,
) -> Any:
    """mlx.core.quantized_matmul in the mode affine."""
    import mlx.core as mx

    apart = codes.astype(mx.uint32).reshape(len(codes), -1, 32 // bits)
    packed = (apart << (bits * mx.arange(32 // bits, dtype=mx.uint32))).sum(-1).astype(mx.uint32)
    options = {"transpose": transpose_weights, "group_size": group_size, "bits": bits}
    return mx.quantized_matmul(x, packed, scales, offsets, **options)
