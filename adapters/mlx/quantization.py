"""Codes of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html
Of mxfp8, 32 numbers share a scale that is a power of two; codes are packed four to an integer of 32 bits, and are read
here as what they mean with a scale of one.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "quantize_blocks",
    framework="mlx",
    dtypes=("float32", "float16"),
    fixed={"code_dtype": "e4m3", "block_rows": 1, "block_columns": 32, "power_of_two": True},
    package="mlx",
    extra="mlx",
)
def mlx_mxfp8(x: Any) -> Any:
    """mlx.core.quantize in the mode mxfp8."""
    import mlx.core as mx

    codes, scales, *_ = mx.quantize(x, mode="mxfp8")
    numbers = mx.dequantize(codes, mx.full(scales.shape, 127, mx.uint8), mode="mxfp8")
    return {"codes": numbers.astype(mx.float32), "scale": mx.power(2.0, scales.astype(mx.float32) - 127.0)}
